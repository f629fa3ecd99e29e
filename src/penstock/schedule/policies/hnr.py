"""Runs the highest normalized output rate, for the least average slowdown (Sharaf 2007, Eq. 3.4)."""

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
    """Prefer the highest normalized rate."""
    return selectivity / (cost * ideal)


HNR = Policy("HNR", "highest normalized rate", priority, Manner.STATIC)
