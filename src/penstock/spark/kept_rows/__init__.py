"""Rows that are kept in Parquet files from batch to batch."""
