"""Writes answers to tables of Delta Lake."""
