"""Runs EDF for what can still be on time, and HR for the rest (Sharaf 2007, §3.5.2)."""

from __future__ import annotations

from penstock.schedule.policy import Head, Manner, Policy


def priority(head: Head) -> float:
    """Rank what is late by output rate; the manner does the rest."""
    return head.selectivity / head.cost


HYBRID = Policy("Hybrid", "EDF while deadlines can be met, HR for the late", priority, Manner.HYBRID)
