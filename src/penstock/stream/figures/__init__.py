"""Figures of queries: how soon they are answered, and what their share of the work is."""
