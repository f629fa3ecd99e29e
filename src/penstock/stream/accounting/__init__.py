"""Accounts for what streams hold in memory and on disk, and for whom."""
