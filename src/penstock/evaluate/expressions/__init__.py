"""Evaluates expressions over keys and aggregates in Arrow, with Spark's results."""
