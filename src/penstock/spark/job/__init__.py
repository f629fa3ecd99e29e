"""Aggregates the rows of a batch to partials in one Spark job."""
