"""Runs streams without a source of their own: numbered rows, and the answers of a query."""
