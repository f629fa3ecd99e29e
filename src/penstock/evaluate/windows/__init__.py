"""Merges the partials of sliding windows, by prefix sums, trees or scans."""
