"""Reads rows from files and DataFrames, as Spark streaming queries."""
