"""Runs the tuple whose answer is due first (Golab et al. 2006, §4.1; Sharaf 2007, §3.5.1)."""

from __future__ import annotations

from penstock.schedule.policy import Head, Manner, Policy


def priority(head: Head) -> float:
    """Prefer the earliest deadline."""
    return -head.due


EDF = Policy("EDF", "earliest deadline first", priority, Manner.HEAD)
