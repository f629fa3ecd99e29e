"""Merges partials into answers: components of aggregates, window structures, functions, expressions."""
