"""Runs the highest output rate, for the least average response time (Sharaf 2007, Eq. 3.1)."""

from __future__ import annotations

from penstock.schedule.policy import Head, Manner, Policy


def priority(head: Head) -> float:
    """Prefer the highest global output rate."""
    return head.selectivity / head.cost


HR = Policy("HR", "highest rate", priority, Manner.STATIC)
# Within one query the same rule has its older name (Urhan and Franklin 2001).
RB = Policy("RB", "rate-based, within a query", priority, Manner.STATIC)
