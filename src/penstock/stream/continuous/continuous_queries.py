"""Answers the continuous queries of one stream: a row that somebody takes is stored once, with its commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.errors import SourceError
from penstock.evaluate.typed import Definition
from penstock.kernel.arrived import by_grouping, statistics
from penstock.kernel.defects import is_of_spark
from penstock.language.options import since_of
from penstock.model.query import Query
from penstock.model.schema import Column
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.share.continuous import part_name, plan_continuous
from penstock.sinks.outlet import Tables
from penstock.spark.failures import explain_failure
from penstock.spark.functions.register import isolate
from penstock.spark.job.continuous_job import FAILURES
from penstock.spark.job.jvm_columns import size_in_bytes
from penstock.spark.job.lookup_tables import LookupTables
from penstock.spark.job.partials import PartialsJob
from penstock.spark.job.writer import Bounds
from penstock.spark.kept_rows.commit_folders import TIME
from penstock.spark.kept_rows.taken_rows import TakenRows, numbers_of
from penstock.store.commits import Paused
from penstock.store.taken_plan import TakenCommit
from penstock.stream.batch_job import BEFORE_ALL_TIME
from penstock.stream.context import StreamContext
from penstock.stream.continuous.row_answers import SinkTables
from penstock.stream.continuous.running_plan import Failed, RunningPlan, is_of
from penstock.stream.derived.row_times import RULERS
from penstock.stream.past_rows import PastRows
from penstock.stream.progress import Progress
from penstock.stream.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOG: Final = logging.getLogger("penstock")
FEW_ROWS: Final = 200_000  # that are taken of a batch: up to so many come to the driver, which sorts and writes them
FEW_BYTES: Final = 16 << 20  # of the files of a first batch, of which nobody knows how many rows are taken
SMALL_BATCH: Final = 20_000  # rows of the last batch: up to so many, a plan that is new runs interpreted


@dataclass(frozen=True, slots=True)
class Charged:
    """A query that failed on a row of a batch, and why."""

    definition: Definition
    first_us: int
    reason: str


@dataclass(frozen=True, slots=True)
class TakenBatch:
    """What came of a batch for continuous queries: what is stored, who failed, and the versions of tables."""

    commit: TakenCommit | None = None
    charged: tuple[Charged, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


class ContinuousQueries:
    """The continuous queries of one stream: their plan, and the rows that they have taken."""

    def __init__(self, given: StreamContext, progress: Progress, doubtful: tuple[Column, ...]) -> None:
        """Open what is stored; ``doubtful`` columns of the stream may fail on a row. The first batch makes a plan."""
        self.stream, self.catalog, self.progress = given.stream, given.catalog.catalog, progress
        self.tables: LookupTables = given.settings.tables
        self.rows, self.doubtful = TakenRows(given.places.taken), doubtful
        self.running: RunningPlan | None = None
        self._targets, self._families = given.targets, ConditionGroupMemory()
        self._taken: int | None = None  # rows of the last batch; None: there was none yet
        self._few = True  # they came to the driver
        self._last: int = 0  # rows of the stream in the last batch

    def recover(self, number: int) -> None:
        """Forget what was stored for commits after a number, and let sinks be given what they lack of the others."""
        self.rows.forget_after(number)
        self.running = None
        self._targets.keep_rows(self, there=self.rows.last() is not None)

    # -- a batch -------------------------------------------------------------------------------------------------

    def take(self, batch: DataFrame, at: Snapshot, bounds: Bounds, number: int, rows: int | None) -> TakenBatch:
        """Store the rows of a batch that some query takes; a query that fails on one of them takes none.

        ``rows`` are those of the batch before. Nothing holds before the commit of that number is made.
        """
        self._last = SMALL_BATCH + 1 if rows is None else rows
        judged = bounds.watermark_us if self.progress.clock.watermark_us is not None else None
        return self.take_of(batch, self.answering(at), at, bounds, TakenCommit(number, -1, 0, judged, 0))

    def take_of(
        self, batch: DataFrame, definitions: Sequence[Definition], at: Snapshot, bounds: Bounds, commit: TakenCommit
    ) -> TakenBatch:
        """Store the rows that some of these queries take, until none of them fails on any."""
        charged: list[Charged] = []
        self.rows.forget(commit.number)
        while definitions:
            running = self._running(definitions, at)
            frames, versions = self.tables.current(running.plan.layout.plan.joins, at.tables)
            stored, failed = self._attempted(running, batch, frames, bounds, commit)
            if not failed:
                return TakenBatch(stored, tuple(charged), versions)
            charged += self._charged(failed, running, batch, frames, bounds)
            gone = {one.definition.id for one in charged}
            definitions = [d for d in definitions if d.id not in gone]
            self.rows.forget(commit.number)
        return TakenBatch(None, tuple(charged))

    def asks_for_past(self, at: Snapshot) -> bool:
        """Tell whether a query asks for rows of the past that are not among its rows."""
        known = self.progress.windows.past_taken
        return any(since_of(d.query) is not None and d.id not in known for d in at.continuous)

    def take_past(self, at: Snapshot, past: PastRows, number: int, clock_us: int) -> TakenBatch:
        """Store the rows of the past for queries that have come with a wish for it; they are not told from late ones.

        Queries that ask from the same time on are answered together; there may be more of others.
        """
        known, clock = self.progress.windows.past_taken, self.progress.clock
        known &= {d.id for d in at.continuous}
        asking = [d for d in at.continuous if since_of(d.query) is not None and d.id not in known]
        if clock.seen_until_us is None or not asking:
            known |= {d.id for d in asking}
            return TakenBatch()
        since = since_of(asking[0].query)
        together = [d for d in asking if since_of(d.query) == since]
        known |= {d.id for d in together}
        bounds = Bounds(BEFORE_ALL_TIME, clock.seen_until_us, clock_us=clock_us)
        since_us = since if isinstance(since, int) else None
        try:
            rows = past.rows(since_us, clock.seen_until_us, clock.source)
        except SourceError as error:
            return TakenBatch(charged=tuple(Charged(d, clock.seen_until_us, error.what) for d in together))
        return self.take_of(rows, together, at, bounds, TakenCommit(number, -1, 0, None, 0, past=True))

    def check_past(self, query: Query, past: PastRows) -> None:
        """Refuse a query that asks for a past which cannot be had."""
        since = since_of(query)
        if since is not None and self.progress.clock.seen_until_us is not None:
            past.check(since if isinstance(since, int) else None, self.progress.clock.source)

    def answering(self, at: Snapshot) -> list[Definition]:
        """List the continuous queries that are not paused."""
        stopped = self.progress.windows.paused.keys() | at.paused
        return [d for d in at.continuous if d.id not in stopped]

    def _running(self, definitions: Sequence[Definition], at: Snapshot) -> RunningPlan:
        """Return the plan of queries, made once as long as they are the same."""
        if self.running is None or not is_of(self.running, definitions):
            plan = plan_continuous(definitions, self.stream.time, at.version, self.doubtful)
            self.running = RunningPlan(plan, self._families)
        return self.running

    def _attempted(
        self,
        running: RunningPlan,
        batch: DataFrame,
        frames: Mapping[str, DataFrame],
        bounds: Bounds,
        commit: TakenCommit,
    ) -> tuple[TakenCommit | None, list[Failed]]:
        """Run the job; once more, with users' functions apart, if it fails."""
        try:
            return self._ran(running, batch, frames, bounds, commit)
        except Exception as error:
            if not is_of_spark(error):
                raise
            isolate(batch.sparkSession, error)
        return self._ran(running, batch, frames, bounds, commit)

    def _ran(
        self,
        running: RunningPlan,
        batch: DataFrame,
        frames: Mapping[str, DataFrame],
        bounds: Bounds,
        commit: TakenCommit,
    ) -> tuple[TakenCommit | None, list[Failed]]:
        """Run the job, here or by executors, and work out who takes its rows."""
        if self._is_few(batch):
            rows = running.few(batch, frames, bounds, young=self._last <= SMALL_BATCH)
            learned = running.learn(rows)
            if failed := running.failed(rows, learned):
                return None, failed
            nobody = running.takers.nobody(running.fragments(rows))
            rows = rows.filter(pa.array(~nobody)) if nobody.any() else rows
            stored = rows.drop_columns([FAILURES]) if FAILURES in rows.column_names else rows
        else:
            self.rows.write(running.many(batch, frames, bounds), commit.number)
            rows = stored = self._written(running, commit.number)
            learned = running.learn(rows)
            if failed := running.failed(rows, learned):
                return None, failed
        self._taken = stored.num_rows
        if not stored.num_rows:
            return None, []
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
        return found, []

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

    # -- failures ------------------------------------------------------------------------------------------------

    def _charged(
        self,
        failed: Sequence[Failed],
        running: RunningPlan,
        batch: DataFrame,
        frames: Mapping[str, DataFrame],
        bounds: Bounds,
    ) -> list[Charged]:
        """Find out on which row each query failed, and why; conditions are attempted apart for that."""
        known = {one.definition.id: one.first_us for one in failed if one.first_us is not None}
        unsure = [one.definition for one in failed if one.first_us is None]
        if unsure:
            known |= self._first_failures(unsure, batch, frames, bounds)
        found = []
        for one in failed:
            if (first := known.get(one.definition.id)) is not None:
                reason = explain_failure(batch, frames, running.job, one.definition, first)
                found.append(Charged(one.definition, first, reason))
        assert found, "a condition failed, and nobody's fails when it is attempted alone"
        return found

    def _first_failures(
        self, definitions: Sequence[Definition], batch: DataFrame, frames: Mapping[str, DataFrame], bounds: Bounds
    ) -> dict[int, int]:
        """Attempt conditions apart, and return the time of the first row on which each fails."""
        layout = plan_continuous(definitions, self.stream.time, 0, self.doubtful).layout
        layout = replace(layout, attempts=frozenset(d.id for d in definitions))
        job = PartialsJob(layout, ConditionGroupMemory())
        partials = job.run(batch, frames, bounds)
        arrived = statistics(layout, by_grouping(partials, len(layout.members))[0])
        return {number: first for number, (first, _, _) in arrived.failures.items()}

    def charge(self, batch: TakenBatch) -> list[Charged]:
        """Pause the queries that failed on a row of a batch."""
        for one in batch.charged:
            self.progress.windows.paused[one.definition.id] = Paused(
                one.first_us, one.first_us, one.first_us, one.reason
            )
        return list(batch.charged)

    def keep(self, current: Mapping[int, Definition], windowed: Mapping[int, Definition]) -> None:
        """Forget the pauses of queries that are gone."""
        paused = self.progress.windows.paused
        for number in [n for n in paused if n not in current and n not in windowed and n < RULERS]:
            del paused[number]

    # -- what is stored ------------------------------------------------------------------------------------------

    def for_sinks(self, after: int) -> Iterator[tuple[int, Callable[[], Tables], int]]:
        """Give the commits after a number that have rows, as sinks get them."""
        for commit in self.rows.commits(after):
            if commit.number <= self.progress.clock.number:
                yield commit.number, partial(self._tables, commit), commit.rows

    def _tables(self, commit: TakenCommit) -> Tables:
        """Write the rows of a commit as sinks get them; many are read when they are written."""
        definitions = [query.definition for query in self.rows.plan(commit.plan)[0].queries]
        names = {number: self.catalog.name_of(number) for number in definitions}
        versions = {number: self.catalog.version_of(number) for number in definitions}
        tables = SinkTables(self.rows, commit, names, versions)
        return list(tables) if commit.rows <= FEW_ROWS else tables

    def expire(self, taken: int, watermark_us: int | None, keeping: Callable[[int], int]) -> None:
        """Delete the commits that every sink has and whose rows no query keeps any more."""
        if watermark_us is None:
            return
        longest: dict[int, int] = {}
        gone = []
        for commit in self.rows.commits():
            if commit.number > taken:
                continue
            if commit.plan not in longest:
                queries = self.rows.plan(commit.plan)[0].queries
                longest[commit.plan] = max((keeping(query.definition) for query in queries), default=0)
            if commit.last_us < watermark_us - longest[commit.plan]:
                gone.append(commit.number)
        self.rows.expire(gone)
        self.rows.expire_plans(None if self.running is None else self.running.number)
