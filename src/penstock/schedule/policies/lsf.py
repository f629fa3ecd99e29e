"""Runs the tuple with the greatest stretch so far, for the least maximum slowdown (Sharaf 2007, Eq. 3.6)."""

from __future__ import annotations

from penstock.schedule.policy import Manner, Policy


def priority(
    selectivity: float,
    cost: float,
    ideal: float,
    weight: float,
    extra: float,
    arrival: float,
    pending: float,
    due: float,
    now: float,
) -> float:
    """Prefer the greatest stretch."""
    return 1.0 / ideal * (now - arrival)


LSF = Policy("LSF", "longest stretch first", priority, Manner.AGING)
