"""Holds the parts of the predicates benchmark: data, queries, the sides compared, counts and tables."""
