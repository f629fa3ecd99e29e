"""Statements carried out: what they change in the catalog and in streams, and what they ask."""
