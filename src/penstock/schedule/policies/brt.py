"""Balances output rate and wait, for the least ℓ2 norm of response times (Sharaf 2007, Eq. 3.8)."""

from __future__ import annotations

from penstock.schedule.policy import Head, Manner, Policy


def priority(head: Head) -> float:
    """Prefer rate times wait."""
    return head.selectivity / head.cost * (head.now - head.arrival)


BRT = Policy("BRT", "balance response time", priority, Manner.AGING)
