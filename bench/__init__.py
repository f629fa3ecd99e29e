"""Holds the benchmarks of a source checkout: ``penstock bench NAME`` runs the module of that name."""
