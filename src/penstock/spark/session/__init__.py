"""Spark sessions and their settings."""
