"""From statements to bound queries in canonical text."""
