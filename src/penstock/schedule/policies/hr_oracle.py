"""Runs the query that answers soonest, knowing which tuples will pass (Sharaf 2007, §3.8.1.10)."""

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
    """Prefer the least time to the next answer."""
    return 1.0 / extra


HR_O = Policy("HR-O", "highest rate, knowing which tuples pass", priority, Manner.QUEUE, oracle=True)
