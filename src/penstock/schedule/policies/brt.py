"""Balances output rate and wait, for the least ℓ2 norm of response times (Sharaf 2007, Eq. 3.8)."""

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
    """Prefer rate times wait."""
    return selectivity / cost * (now - arrival)


BRT = Policy("BRT", "balance response time", priority, Manner.AGING)
