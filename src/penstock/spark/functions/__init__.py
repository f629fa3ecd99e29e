"""Runs users' Python functions and aggregates in Spark's workers."""
