"""Structures that merge the partials of sliding windows."""
