"""Keeps durable state: catalog changes, commits and partials, answers; files become visible whole."""
