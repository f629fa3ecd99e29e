"""Reproduces the figures of papers by simulation, and judges what the papers claim of them."""
