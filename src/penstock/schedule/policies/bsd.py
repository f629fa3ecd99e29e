"""Balances normalized rate and stretch, for the least ℓ2 norm of slowdowns (Sharaf 2007, Eq. 3.7)."""

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
    """Prefer normalized rate times stretch."""
    return selectivity / (cost * ideal * ideal) * (now - arrival)


BSD = Policy("BSD", "balance slowdown", priority, Manner.AGING)
