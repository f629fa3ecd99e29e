"""What queries have in common: slices, conditions, groupings; the plan and its layout."""
