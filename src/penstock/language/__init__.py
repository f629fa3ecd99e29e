"""Text of statements comes in; bound queries, streams and tables go out. Knows sqlglot, never Spark."""
