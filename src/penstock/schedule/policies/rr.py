"""Serves queries in turn, the best rate first within each (Aurora's two levels; Sharaf 2007, §3.7)."""

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
    """Prefer the highest rate within the query whose turn it is."""
    return selectivity / cost


RR = Policy("RR", "round robin over queries, rate-based within", priority, Manner.TURNS)
