"""Starts Spark sessions and pins their settings."""
