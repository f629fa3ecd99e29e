"""Runs the tuple with the greatest stretch so far, for the least maximum slowdown (Sharaf 2007, Eq. 3.6)."""

from __future__ import annotations

from penstock.schedule.policy import Head, Manner, Policy


def priority(head: Head) -> float:
    """Prefer the greatest stretch."""
    return 1.0 / head.ideal * (head.now - head.arrival)


LSF = Policy("LSF", "longest stretch first", priority, Manner.AGING)
