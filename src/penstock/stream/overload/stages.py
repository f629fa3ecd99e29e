"""Lists what an engine does when its memory runs short, the mildest first: a new stage is a line here.

Each stage begins above a share of the cap and ends below a lesser one, so that a load at the edge does not switch it on
and off.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class DegradationStage:
    """One thing that is done when memory runs short."""

    name: str
    above: float  # share of the cap from which on it is done
    below: float  # share of the cap from which down it is not done any more
    meaning: str


SKIP: Final = "skip"
PERIODS: Final = "periods"
BACKGROUND: Final = "background"
HOLD: Final = "hold"
PREEMPT: Final = "preempt"
STAGES: Final = (
    DegradationStage(SKIP, 0.70, 0.60, "fresh queries skip what is superseded at once, not when their turn comes"),
    DegradationStage(PERIODS, 0.75, 0.65, "fresh queries run at their own slides, the longest periods they allow"),
    DegradationStage(BACKGROUND, 0.80, 0.70, "the past is not read, nothing is warmed up, measured or woven anew"),
    DegradationStage(HOLD, 0.90, 0.80, "batches wait in the source until answers are given and sinks have taken them"),
    DegradationStage(PREEMPT, 1.00, 0.90, "the largest queries with `preemptible = true` are paused, one by one"),
)


def active_at(share: float, active: Collection[str]) -> frozenset[str]:
    """Tell which stages are active at a share of the cap, from those that were."""
    return frozenset(one.name for one in STAGES if share >= one.above or (one.name in active and share >= one.below))
