"""Runs the tuple with the least processing time left (Sharaf 2007, §3.7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.schedule.policy import Head, Manner, Policy
from penstock.schedule.segments import Segments


def priority(head: Head) -> float:
    """Prefer the shortest remaining time."""
    return 1.0 / head.extra


def remaining(segments: Segments, knob: float) -> np.ndarray[Any, Any]:
    """Take the time left to the root if nothing is discarded."""
    return segments.remaining


SRPT = Policy("SRPT", "shortest remaining processing time", priority, Manner.STATIC, remaining)
