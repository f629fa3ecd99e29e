"""Reads Penstock's SQL: parses statements and binds queries to the catalog; uses sqlglot, never Spark."""
