"""Aggregate functions: what each needs stored, and how its answer is made of that."""
