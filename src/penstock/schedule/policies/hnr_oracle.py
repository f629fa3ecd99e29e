"""Runs the highest normalized rate, knowing which tuples will pass (Sharaf 2007, §3.8.1.10)."""

from __future__ import annotations

from penstock.schedule.policy import Head, Manner, Policy


def priority(head: Head) -> float:
    """Prefer the least time to the next answer, normalized."""
    return 1.0 / (head.extra * head.ideal)


HNR_O = Policy("HNR-O", "highest normalized rate, knowing which tuples pass", priority, Manner.QUEUE, oracle=True)
