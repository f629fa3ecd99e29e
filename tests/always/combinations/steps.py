"""What a scenario is made of: how the engine is set, and the steps that are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.kernel.synopsis import Kernel
from penstock.model.strategy import StrategyName
from penstock.store.faults import MOMENTS, POINTS
from tests.always.combinations.expressions import (
    Row,
)
from tests.always.combinations.queries import SECOND, Join, Kind, Query

QUARTER = SECOND // 4
EPOCH = 1_767_571_200 * SECOND  # 2026-01-05, where the rows begin
DRIVER = 50_000  # groups that the driver keeps: all
WRITES = [f"{p}.{m}" for p in POINTS for m in MOMENTS if p not in ("format", "migration", "backup", "catalog")]
KINDS: tuple[Kind, ...] = ("time", "start", "rows", "apart")
JOINS: tuple[Join, ...] = ("JOIN", "LEFT JOIN")
RANGES, SLIDES = (1, 2, 3, 5, 8, 13, 20, 30), (1, 2, 3, 5, 10)


@dataclass(frozen=True, slots=True)
class Setting:
    """How the engine and its stream are set."""

    strategy: StrategyName
    kernel: Kernel
    max_driver_groups: int
    durable: bool
    lateness: int
    max_ahead: int
    idle: int
    dedup: tuple[str, ...]
    retain_rows: int
    roll_seconds: float
    table: bool
    functions: bool
    aggregation: int = 0  # the place where rows are aggregated first; with every restart it is another
    ways: tuple[str, ...] = ()  # that the engine goes with much data

    @property
    def spreads(self) -> bool:
        """Tell whether executors may keep groupings."""
        return self.durable and self.max_driver_groups < DRIVER and self.strategy != "weave"


@dataclass(frozen=True, slots=True)
class Step:
    """Something that is done at a time."""

    kind: str
    name: str = ""
    query: Query | None = None
    rows: tuple[Row, ...] = ()
    at: int = EPOCH  # what the clock shows
    moments: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        """Write a step for people."""
        parts = [f"{(self.at - EPOCH) / SECOND:g} s:", self.kind, self.name]
        parts += [self.query.asked() if self.kind == "ask" else self.query.sql()] if self.query else []
        parts += [f"\n       {_shown(row)}" for row in self.rows]
        parts += [str(list(self.moments))] if self.moments else []
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that a seed decides."""

    seed: int
    setting: Setting
    steps: tuple[Step, ...]

    def kept(self, places: Sequence[int]) -> Scenario:
        """Leave out all steps but some."""
        return replace(self, steps=tuple(self.steps[place] for place in places))

    def __str__(self) -> str:
        """Write a scenario for people."""
        return "\n".join(
            [f"seed {self.seed}: {self.setting}", *(f"  {i}: {step}" for i, step in enumerate(self.steps))]
        )


def _shown(row: Row) -> str:
    """Write a row for people, its time in seconds since the beginning."""
    values = {k: v for k, v in row.items() if v is not None}
    return str(values | ({"ts": (row["ts"] - EPOCH) / SECOND} if row.get("ts") is not None else {}))
