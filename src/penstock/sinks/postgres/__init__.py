"""Writes answers to tables of a Postgres database."""
