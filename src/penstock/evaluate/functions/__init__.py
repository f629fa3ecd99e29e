"""Defines aggregate functions: what each stores, and how it makes its answer of that."""
