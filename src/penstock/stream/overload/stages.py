"""Lists what an engine does when its memory or the queues of a stream run short, the mildest first.

A new stage is a line here. Each begins above a share of a cap and ends below a lesser one, so that a load at the edge
does not switch it on and off.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Measure: TypeAlias = Literal["memory", "queues"]  # the engine's memory; the queues of one stream's operators


@dataclass(frozen=True, slots=True)
class DegradationStage:
    """One thing that is done when what a cap is for runs short."""

    name: str
    above: float  # share of the cap from which on it is done
    below: float  # share of the cap from which down it is not done any more
    meaning: str
    of: tuple[Measure, ...] = ("memory",)


SKIP: Final = "skip"
PERIODS: Final = "periods"
BACKGROUND: Final = "background"
BLOCKS: Final = "blocks"
CHAIN: Final = "chain"
HOLD: Final = "hold"
SAMPLE: Final = "sample"
PREEMPT: Final = "preempt"
STAGES: Final = (
    DegradationStage(SKIP, 0.70, 0.60, "fresh queries skip what is superseded at once, not when their turn comes"),
    DegradationStage(PERIODS, 0.75, 0.65, "fresh queries run at their own slides, the longest periods they allow"),
    DegradationStage(BACKGROUND, 0.80, 0.70, "the past is not read, nothing is warmed up, measured or woven anew"),
    DegradationStage(BLOCKS, 0.85, 0.75, "rows that wait for functions are let go of, and read from their files again"),
    DegradationStage(CHAIN, 0.70, 0.50, "functions take first what frees most bytes for its time", ("queues",)),
    DegradationStage(
        HOLD,
        0.90,
        0.80,
        "batches wait in the source until what came before is answered and taken",
        ("memory", "queues"),
    ),
    DegradationStage(
        SAMPLE,
        0.95,
        0.85,
        "queries with `shed = 'sample'` take half as many rows, batch by batch",
        ("memory", "queues"),
    ),
    DegradationStage(PREEMPT, 1.00, 0.90, "the largest queries with `preemptible = true` are paused, one by one"),
)


def stages_of(measure: Measure) -> tuple[DegradationStage, ...]:
    """List the stages that one cap leads to."""
    return tuple(one for one in STAGES if measure in one.of)


def active_at(share: float, active: Collection[str], measure: Measure = "memory") -> frozenset[str]:
    """Tell which stages are active at a share of a cap, from those that were."""
    stages = stages_of(measure)
    return frozenset(one.name for one in stages if share >= one.above or (one.name in active and share >= one.below))
