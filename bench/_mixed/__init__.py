"""Holds what the benchmark of mixed loads is made of: workloads, a grammar of queries, runs and rivals."""
