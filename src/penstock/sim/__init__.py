"""Simulates scheduling policies exactly, over queries and arrivals."""
