"""Holds what the benchmark of peers is made of: the trades, and a file for each engine that runs the same windows."""
