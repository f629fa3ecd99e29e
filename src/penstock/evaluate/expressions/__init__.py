"""Expressions over keys and aggregates, evaluated in Arrow as Spark would."""
