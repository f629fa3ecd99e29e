"""Delivers answers to sinks: files, memory, the terminal."""
