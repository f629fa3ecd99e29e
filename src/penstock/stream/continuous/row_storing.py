"""Runs the job of a batch for continuous queries and stores the rows that it selects, in the driver or by executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.kernel.defects import is_of_spark
from penstock.share.continuous import part_name
from penstock.spark.functions.register import isolate
from penstock.spark.job.continuous_job import FAILURES
from penstock.spark.job.counted_rows import SentTimes
from penstock.spark.job.jvm_columns import size_in_bytes
from penstock.spark.job.writer import Bounds
from penstock.spark.kept_rows.commit_folders import TIME
from penstock.spark.kept_rows.taken_rows import TakenRows, numbers_of
from penstock.store.taken_plan import TakenCommit
from penstock.stream.aggregation_choice import MAX_RESULT
from penstock.stream.continuous.charged_rows import Charged
from penstock.stream.continuous.running_plan import FailedQuery, RunningPlan
from penstock.stream.figures.row_figures import DividedRows, nothing_stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEW_ROWS: Final = 200_000  # that are taken of a batch: up to so many come to the driver, which sorts and writes them
FEW_BYTES: Final = 16 << 20  # of the files of a first batch, of which nobody knows how many rows are taken


@dataclass(frozen=True, slots=True)
class Selected:
    """What came of a batch: the rows that are stored and whose they are, or the queries that failed."""

    commit: TakenCommit | None = None
    failed: Sequence[FailedQuery] = ()
    divided: DividedRows | None = None
    times: SentTimes | None = None  # of all rows of the batch, if they were sent


@dataclass(frozen=True, slots=True)
class TakenBatch:
    """What came of a batch for continuous queries: what is stored, who failed, and what it cost."""

    commit: TakenCommit | None = None
    charged: tuple[Charged, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    divided: DividedRows | None = None
    seconds: float = 0.0
    times: SentTimes | None = None  # of all rows of the batch, if they were sent


class RowStoring:
    """Stores the rows of batches; how many the last one took says who writes those of the next."""

    def __init__(self, rows: TakenRows) -> None:
        """Store into a log."""
        self.rows = rows
        self.is_small = False  # the last batch: a plan that is new runs interpreted
        self.tells_times = False  # of every row: somebody has to count the rows of the next batch, and they are few
        self._taken: int | None = None  # rows of the last batch; None: there was none yet

    def store(
        self,
        running: RunningPlan,
        batch: DataFrame,
        frames: Mapping[str, DataFrame],
        bounds: Bounds,
        commit: TakenCommit,
    ) -> Selected:
        """Run the job, once more with users' functions apart if it fails; return what came of it."""
        try:
            return self._ran(running, batch, frames, bounds, commit)
        except Exception as error:
            if not is_of_spark(error):
                raise
            if MAX_RESULT in str(error):  # more rows were taken than the driver takes: executors write them
                self._taken = FEW_ROWS + 1
            else:
                isolate(batch.sparkSession, error)
        return self._ran(running, batch, frames, bounds, commit)

    def _ran(
        self,
        running: RunningPlan,
        batch: DataFrame,
        frames: Mapping[str, DataFrame],
        bounds: Bounds,
        commit: TakenCommit,
    ) -> Selected:
        """Run the job, here or by executors, and work out who takes its rows."""
        times = None
        if self._is_few(batch):
            if self.tells_times and running.job.can_send_every_row:
                rows, times = running.few_of_all(batch, frames, bounds, young=self.is_small)
            else:
                rows = running.few(batch, frames, bounds, young=self.is_small)
            learned = running.learn(rows)
            if failed := running.failed(rows, learned):
                return Selected(failed=failed, times=times)
            nobody = running.takers.nobody(running.fragments(rows))
            rows = rows.filter(pa.array(~nobody)) if nobody.any() else rows
            stored = rows.drop_columns([FAILURES]) if FAILURES in rows.column_names else rows
        else:
            self.rows.write(running.many(batch, frames, bounds), commit.number)
            rows = stored = self._written(running, commit.number)
            learned = running.learn(rows)
            if failed := running.failed(rows, learned):
                return Selected(failed=failed)
        self._taken = stored.num_rows
        if not stored.num_rows:
            return Selected(divided=nothing_stored([one.id for one in running.plan.definitions]), times=times)
        if running.number is None:
            running.number = commit.number
            known = running.takers
            self.rows.begin_plan(running.record(commit.number), known)
        if self._is_few_written(commit.number):
            self.rows.write(stored, commit.number)
        self.rows.add_fragments(running.number, commit.number, learned.added)
        last_us = int(np.max(numbers_of(stored, TIME)))
        found = replace(commit, plan=running.number, rows=stored.num_rows, last_us=last_us)
        self.rows.add(found)
        return Selected(found, divided=running.divided(stored, self.rows.bytes_of(commit.number)), times=times)

    def _is_few(self, batch: DataFrame) -> bool:
        """Tell whether the rows that are taken of a batch are few enough for the driver."""
        if self._taken is None:
            return size_in_bytes(batch) <= FEW_BYTES
        return self._taken <= FEW_ROWS

    def _is_few_written(self, number: int) -> bool:
        """Tell whether the rows are here: executors have written no others."""
        return self.rows.stored(number) is None

    def _written(self, running: RunningPlan, number: int) -> pa.Table:
        """Read back of what executors wrote what tells who takes it."""
        parts = [part_name(part) for part in range(len(running.takers.parts))]
        pieces = [p for _, p in self.rows.pieces(TakenCommit(number, 0, 0, None, 0), [*parts, FAILURES, TIME])]
        return (
            pa.concat_tables(pieces)
            if pieces
            else pa.table({name: pa.array([], pa.int64()) for name in [*parts, TIME]})
        )
