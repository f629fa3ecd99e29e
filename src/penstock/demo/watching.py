"""Watches the demo's batches: rows, seconds and the latest answers of a few queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.sinks.delivery import QUERY
from penstock.sinks.protocol import Progressing


@dataclass(frozen=True, slots=True)
class BatchDone:
    """One batch: how many rows came, how many answers went, and how long that took."""

    rows: int
    answers: int
    seconds: float
    measured: bool  # False: it warmed up

    @property
    def rows_per_second(self) -> float:
        """Return the batch's pace."""
        return self.rows / self.seconds if self.seconds else 0.0


class Watching:
    """A sink that keeps counts and the latest answers of a few queries; it is its own writer."""

    def __init__(self, chosen: Sequence[str], planned: int) -> None:
        """Watch some queries over a planned number of batches."""
        self.chosen, self.planned = tuple(chosen), planned
        self.batches: list[BatchDone] = []
        self.answers = 0
        self.latest: dict[str, pa.Table] = {}
        self.ingested: Callable[[], int] = lambda: 0
        self.noticed: Callable[[], None] = lambda: None  # called after each batch
        self.delivered = -1
        self._rows, self._since, self._measured = 0, time.perf_counter(), False

    # -- what the demo says --------------------------------------------------------------------------------------

    def begin(self, *, measured: bool) -> None:
        """Start the clock of the next batches."""
        self._since, self._measured = time.perf_counter(), measured

    @property
    def rows(self) -> int:
        """Count the rows of the batches that are done."""
        return sum(b.rows for b in self.batches)

    @property
    def rows_per_second(self) -> float:
        """Return the pace of the measured batches."""
        measured = [b for b in self.batches if b.measured]
        return sum(b.rows for b in measured) / (sum(b.seconds for b in measured) or 1.0)

    # -- what a sink does ----------------------------------------------------------------------------------------

    def open(self, stream: str, memory: Progressing) -> Watching:
        """Watch the one stream of the demo."""
        return self

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Take notice of a batch; the end of the stream brings answers without rows and is none."""
        now, ingested, answers = time.perf_counter(), self.ingested(), sum(t.num_rows for t in tables)
        self.answers += answers
        for table in tables:
            self._keep_latest(table)
        if ingested > self._rows:
            self.batches.append(BatchDone(ingested - self._rows, answers, now - self._since, self._measured))
        self._rows, self._since, self.delivered = ingested, now, number
        self.noticed()

    def roll(self) -> None:
        """Do nothing: what was watched is already seen."""

    def _keep_latest(self, table: pa.Table) -> None:
        """Keep the last window of each chosen query."""
        names = set(table[QUERY].unique().to_pylist())
        for name in names.intersection(self.chosen):
            mine = table.filter(pc.equal(table[QUERY].cast(pa.string()), name))
            self.latest[name] = mine.filter(pc.equal(mine["window_end"], pc.max(mine["window_end"]))).drop_columns(
                [QUERY]
            )
