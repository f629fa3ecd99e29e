"""Defines the scheduling policies, one in each file."""
