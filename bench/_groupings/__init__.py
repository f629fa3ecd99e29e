"""Holds the parts of the groupings benchmark."""
