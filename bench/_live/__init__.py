"""Runs streams in the background under several policies, for ``penstock bench live``."""
