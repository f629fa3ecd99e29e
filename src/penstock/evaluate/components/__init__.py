"""Defines the mergeable parts of aggregates: counts, sums, frequency tables, sketches, users' states."""
