"""Defines the values that users' requests are made of: windows, streams, tables, functions, queries."""
