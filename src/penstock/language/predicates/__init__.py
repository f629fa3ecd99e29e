"""Splits WHERE clauses into formulas of single tests, and normalizes them."""
