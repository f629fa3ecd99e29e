"""Plans as text, as values and as what-if questions."""
