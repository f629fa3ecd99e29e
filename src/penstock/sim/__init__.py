"""Queries, arrivals and a policy come in; what would have happened, exactly, goes out."""
