"""Turns files of figures into the page bench/RESULTS.md and its charts: a section a benchmark."""
