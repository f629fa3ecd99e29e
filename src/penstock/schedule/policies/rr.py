"""Serves queries in turn, the best rate first within each (Aurora's two levels; Sharaf 2007, §3.7)."""

from __future__ import annotations

from penstock.schedule.policy import Head, Manner, Policy


def priority(head: Head) -> float:
    """Prefer the highest rate within the query whose turn it is."""
    return head.selectivity / head.cost


RR = Policy("RR", "round robin over queries, rate-based within", priority, Manner.TURNS)
