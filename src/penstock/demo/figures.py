"""Defines the figures of a finished demo, which the terminal, the page and the JSON file show."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.demo.alerts import Alerts
from penstock.demo.alone import Alone
from penstock.demo.asked import DemoQuery
from penstock.demo.one_more import OneMore
from penstock.demo.watching import BatchDone
from penstock.share.explain.explanation import Explanation, StreamPlan


@dataclass(frozen=True, slots=True)
class Figures:
    """All that a run of the demo gave."""

    seed: int
    cores: int  # that Spark has
    asked: tuple[DemoQuery, ...]
    shown: tuple[DemoQuery, ...]  # whose answers are told
    batches: tuple[BatchDone, ...]
    late: int
    answers: int
    seconds: float  # of the measured batches and the end of the stream
    explanation: Explanation
    results: dict[str, pa.Table]  # of the queries shown
    alone: Alone | None  # None: not asked for
    more: OneMore | None = None  # None: there were too few batches
    paused: tuple[str, ...] = ()
    alerts: Alerts | None = None

    @property
    def rows(self) -> int:
        """Count all rows."""
        return sum(b.rows for b in self.batches)

    @property
    def measured_rows(self) -> int:
        """Count the rows of the measured batches."""
        return sum(b.rows for b in self.batches if b.measured)

    @property
    def rows_per_second(self) -> float:
        """Return the pace of a measured batch, the median: the first ones warmed up, and the end has no rows."""
        return statistics.median([b.rows_per_second for b in self.batches if b.measured] or [0.0])

    @property
    def plan(self) -> StreamPlan:
        """Return the plan of the one stream."""
        return self.explanation.streams[0]

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return {
            "finished": True,
            "seed": self.seed,
            "cores": self.cores,
            "queries": len(self.asked),
            "rows": self.rows,
            "late": self.late,
            "answers": self.answers,
            "measured": {"rows": self.measured_rows, "seconds": self.seconds, "rows_per_second": self.rows_per_second},
            "batches": [
                {"rows": b.rows, "answers": b.answers, "seconds": b.seconds, "measured": b.measured}
                for b in self.batches
            ],
            "one_more_query": None if self.more is None else self.more.to_dict(),
            "alerts": None if self.alerts is None else self.alerts.to_dict(),
            "spark_alone": self._alone_dict(),
            "plan": self.explanation.to_dict(),
        }

    def _alone_dict(self) -> dict[str, Any] | None:
        """Return the comparison as a program reads it; what was not measured says so."""
        if self.alone is None:
            return None
        return {
            "queries": list(self.alone.names),
            "seconds": self.alone.seconds,
            "answers_compared": self.alone.compared,
            "answers_different": self.alone.different,
            "guess_seconds_for_all": self.alone.pace(len(self.asked)),
        }
