"""Runs the query that answers soonest, knowing which tuples will pass (Sharaf 2007, §3.8.1.10)."""

from __future__ import annotations

from penstock.schedule.policy import Head, Manner, Policy


def priority(head: Head) -> float:
    """Prefer the least time to the next answer."""
    return 1.0 / head.extra


HR_O = Policy("HR-O", "highest rate, knowing which tuples pass", priority, Manner.QUEUE, oracle=True)
