"""Runs one stream: processes its batches, commits each step and answers its queries."""
