"""Runs the highest normalized output rate, for the least average slowdown (Sharaf 2007, Eq. 3.4)."""

from __future__ import annotations

from penstock.schedule.policy import Head, Manner, Policy


def priority(head: Head) -> float:
    """Prefer the highest normalized rate."""
    return head.selectivity / (head.cost * head.ideal)


HNR = Policy("HNR", "highest normalized rate", priority, Manner.STATIC)
