"""Defines the functions and aggregates that users write in SQL or Python."""
