"""Functions and aggregates that users define."""
