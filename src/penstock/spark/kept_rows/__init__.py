"""Keeps rows in Parquet files from batch to batch."""
