"""Finds the calls of expensive functions that leave the shared pass, and what is left of their queries."""
