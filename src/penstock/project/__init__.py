"""Reads project folders (penstock.yml, queries, tests, functions, data), and opens engines on them."""
