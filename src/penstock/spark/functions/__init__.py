"""Users' Python functions and aggregates in Spark's workers."""
