"""Runs the tuple whose answer is due first (Golab et al. 2006, §4.1; Sharaf 2007, §3.5.1)."""

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
    """Prefer the earliest deadline."""
    return -due


EDF = Policy("EDF", "earliest deadline first", priority, Manner.HEAD)
