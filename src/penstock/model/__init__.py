"""Values that name what users ask for: windows, streams, tables, queries."""
