"""Runs the highest normalized rate, knowing which tuples will pass (Sharaf 2007, §3.8.1.10)."""

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
    """Prefer the least time to the next answer, normalized."""
    return 1.0 / (extra * ideal)


HNR_O = Policy("HNR-O", "highest normalized rate, knowing which tuples pass", priority, Manner.QUEUE, oracle=True)
