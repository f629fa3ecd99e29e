"""Runs the query that regains freshness soonest (Sharaf 2007, Eq. 4.11, 4.12 and 4.15)."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.schedule.policy import Head, Manner, Policy
from penstock.schedule.segments import Segments


def priority(head: Head) -> float:
    """Prefer the chance to be stale, by the time to be fresh; ``extra`` is the weight β of the queue's length."""
    length: float = head.pending**head.extra
    fresh: float = (1.0 - min(head.selectivity, 1.0)) ** length
    return head.weight * (1.0 - fresh) / (length * head.cost)


def beta(segments: Segments, knob: float) -> np.ndarray[Any, Any]:
    """Take the same β everywhere."""
    return np.full(len(segments), knob)


FAS = Policy("FAS-MCQ", "freshness-aware", priority, Manner.QUEUE, beta, knob=1.0)


def fas(beta_: float) -> Policy:
    """Balance freshness and response: 0 is HR, 1 is FAS-MCQ (§4.3.2)."""
    return Policy(f"FAS-MCQ({beta_:g})", "freshness against response", priority, Manner.QUEUE, beta, knob=beta_)
