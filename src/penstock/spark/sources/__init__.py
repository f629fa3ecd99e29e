"""Sources of rows: files and DataFrames, as Spark streaming queries."""
