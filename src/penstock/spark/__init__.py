"""Runs everything that needs Spark; no other package imports pyspark."""
