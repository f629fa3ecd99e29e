"""Answers that Spark computes or its executors keep."""
