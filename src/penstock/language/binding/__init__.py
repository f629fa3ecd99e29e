"""Binds parsed statements to the catalog's names and writes queries in canonical text."""
