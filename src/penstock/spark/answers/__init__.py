"""Computes the answers that need Spark, or that its executors keep."""
