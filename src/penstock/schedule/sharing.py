"""Gives a shared operator its priority, and chooses which segments run with it (Sharaf 2007, §3.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Strategy(Enum):
    """How a shared operator gets its priority."""

    MAX = "Max"  # from the best segment alone
    SUM = "Sum"  # from all segments
    PDT = "PDT"  # from the segments that raise it: the priority-defining tree


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment that begins at the shared operator: what it yields, by weight, and its expected cost."""

    gain: float  # selectivity, divided by the ideal time once (HNR) or twice (BSD)
    mean_cost: float


@dataclass(frozen=True, slots=True)
class Shared:
    """What a shared operator counts as: its gain and cost, and the segments that run with it."""

    gain: float
    mean_cost: float
    chosen: tuple[int, ...]

    @property
    def priority(self) -> float:
        """Return gain by cost (Eq. 3.9)."""
        return self.gain / self.mean_cost


def shared(segments: Sequence[Segment], cost: float, strategy: Strategy) -> Shared:
    """Join segments in falling order of priority: one, all, or as long as the joint priority rises."""
    order = sorted(range(len(segments)), key=lambda i: (-segments[i].gain / segments[i].mean_cost, i))
    if strategy is Strategy.MAX:
        return _joined(segments, cost, order[:1])
    if strategy is Strategy.SUM:
        return _joined(segments, cost, order)
    found = _joined(segments, cost, order[:1])
    for many in range(2, len(order) + 1):
        larger = _joined(segments, cost, order[:many])
        if larger.priority <= found.priority:
            break
        found = larger
    return found


def _joined(segments: Sequence[Segment], cost: float, chosen: Sequence[int]) -> Shared:
    """Add gains and costs up; the shared operator's cost counts once."""
    gain = sum(segments[i].gain for i in chosen)
    mean_cost = sum(segments[i].mean_cost for i in chosen) - (len(chosen) - 1) * cost
    return Shared(gain, mean_cost, tuple(sorted(chosen)))
