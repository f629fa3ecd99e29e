"""Explains plans as text and as values, and answers what-if questions."""
