"""Runs the tuples on the steepest segment of a lower envelope first (Babcock et al. 2004, §4.1, §5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.schedule.charts import slopes
from penstock.schedule.policy import Head, Manner, Policy
from penstock.schedule.segments import Segments, chart_of, leaves


def priority(head: Head) -> float:
    """Prefer the steepest slope."""
    return head.extra


def steepness(segments: Segments, knob: float) -> np.ndarray[Any, Any]:
    """Give each operator the slope of its segment; of paths that meet in an operator, the steepest."""
    found = np.zeros(len(segments))
    for leaf in leaves(segments):
        path = segments.path(leaf)
        found[path] = np.maximum(found[path], slopes(chart_of(segments, leaf), knob))
    return found


CHAIN = Policy("Chain", "steepest segment of the lower envelope", priority, Manner.STATIC, steepness)
CHAIN_FLUSH = Policy("Chain-Flush", "Chain until a deadline is tight", priority, Manner.FLUSH, steepness)
CHAIN_FLUSH_HEADS = Policy(
    "Chain-Flush*", "Chain-Flush, judged by the heads of queues", priority, Manner.FLUSH_HEADS, steepness
)


def mixed(gamma: float) -> Policy:
    """Treat segments flatter than a slope as one, which runs first in, first out (§5.3)."""
    return Policy(f"Mixed({gamma:g})", "Chain, FIFO on flat segments", priority, Manner.STATIC, steepness, knob=gamma)
