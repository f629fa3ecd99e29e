"""Runs the tuple that came first, for the least maximum response time (Sharaf 2007, §3.2.1)."""

from __future__ import annotations

from penstock.schedule.policy import Head, Manner, Policy


def priority(head: Head) -> float:
    """Prefer the earliest arrival."""
    return -head.arrival


FCFS = Policy("FCFS", "first come, first served", priority, Manner.HEAD)
# The same order under the name it has where whole tuples are taken through (Babcock et al. 2004, §2.2).
FIFO = Policy("FIFO", "each tuple to the end before the next", priority, Manner.HEAD)
