"""Balances normalized rate and stretch, for the least ℓ2 norm of slowdowns (Sharaf 2007, Eq. 3.7)."""

from __future__ import annotations

from penstock.schedule.policy import Head, Manner, Policy


def priority(head: Head) -> float:
    """Prefer normalized rate times stretch."""
    return head.selectivity / (head.cost * head.ideal * head.ideal) * (head.now - head.arrival)


BSD = Policy("BSD", "balance slowdown", priority, Manner.AGING)
