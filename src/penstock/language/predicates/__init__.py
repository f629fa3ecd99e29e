"""WHERE clauses as formulas of single tests."""
