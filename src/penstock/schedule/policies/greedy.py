"""Runs the operator that frees the most memory for its time (Babcock et al. 2004, §4.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.schedule.policy import Head, Manner, Policy
from penstock.schedule.segments import ROOT, Segments


def priority(head: Head) -> float:
    """Prefer the operator that takes most away a unit of time."""
    return head.extra


def own_rate(segments: Segments, knob: float) -> np.ndarray[Any, Any]:
    """Divide what an operator takes away by its time; the root's lets nothing stay."""
    kept = np.where(segments.after == ROOT, 0.0, segments.passed)
    return np.asarray((1.0 - kept) / segments.cost)


GREEDY = Policy("Greedy", "the operator that frees most", priority, Manner.STATIC, own_rate)
