"""Answers the continuous queries of one stream: a row that somebody takes is stored once, with its commit."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from penstock.errors import SourceError
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.language.options import since_of
from penstock.model.schema import Column
from penstock.share.continuous import groups_of_rows, plan_continuous
from penstock.spark.job.writer import Bounds
from penstock.store.taken_plan import TakenCommit
from penstock.stream.batch_job import BEFORE_ALL_TIME
from penstock.stream.context import StreamContext
from penstock.stream.continuous.charged_rows import Charged, charged_for, pause
from penstock.stream.continuous.row_storing import RowStoring, TakenBatch
from penstock.stream.continuous.running_plan import RunningPlan, is_of
from penstock.stream.continuous.stored_rows import StoredRows
from penstock.stream.derived.row_times import RULERS
from penstock.stream.figures.row_figures import RowFigures
from penstock.stream.metrics import Metrics
from penstock.stream.operators.answering import open_operators
from penstock.stream.past_rows import PastRows
from penstock.stream.progress import Progress
from penstock.stream.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ALL_SENT: Final = 100_000  # rows of the last batch: up to so many, all are sent where they have to be counted
SMALL_BATCH: Final = 20_000  # rows of the last batch: up to so many, a plan that is new runs interpreted


class ContinuousQueries:
    """The continuous queries of one stream: their plan, and the rows that they have taken."""

    def __init__(self, given: StreamContext, progress: Progress, doubtful: tuple[Column, ...]) -> None:
        """Open what is stored; ``doubtful`` columns of the stream may fail on a row. The first batch makes a plan."""
        self.stream, self.tables, self.progress = given.stream, given.settings.tables, progress
        self.log, self.doubtful = StoredRows(given.places.taken, given.catalog.catalog, progress), doubtful
        self.rows = self.log.taken
        self.running: RunningPlan | None = None
        self._targets, self._families = given.targets, groups_of_rows()
        self._storing, self.figures = RowStoring(self.rows), RowFigures()
        self.operator_answers = open_operators(given, self.rows, progress, doubtful)
        self.operators = self.operator_answers.queues

    def recover(self, number: int, taken: int) -> None:
        """Forget what was stored for commits after a number, and let sinks be given what they lack of the others.

        That commit is the last one, and tells how many rows were ``taken``.
        """
        self.rows.forget_after(number)
        self.rows.require(number, taken)
        self.running = None
        self._targets.keep_rows(self.log, there=self.rows.last() is not None)

    # -- a batch -------------------------------------------------------------------------------------------------

    def take(
        self, batch: DataFrame, at: Snapshot, bounds: Bounds, number: int, rows: int | None, *, counting: bool = False
    ) -> TakenBatch:
        """Store the rows of a batch that some query takes; a query that fails on one of them takes none.

        ``rows`` are those of the batch before. Nothing holds before the commit of that number is made. If nobody else
        is ``counting`` the rows, the times of all are told where these are few.
        """
        self._storing.is_small = rows is not None and rows <= SMALL_BATCH
        self._storing.tells_times = counting and (rows is None or rows <= ALL_SENT)
        judged = bounds.watermark_us if self.progress.clock.watermark_us is not None else None
        return self.take_of(batch, self.answering(at), at, bounds, TakenCommit(number, -1, 0, judged, 0))

    def take_of(
        self, batch: DataFrame, definitions: Sequence[Definition], at: Snapshot, bounds: Bounds, commit: TakenCommit
    ) -> TakenBatch:
        """Store the rows that some of these queries take, until none of them fails on any."""
        began, charged, times = time.perf_counter(), list[Charged](), None
        self.rows.forget(commit.number)
        while definitions:
            running = self._running(definitions, at)
            frames, versions = self.tables.current(running.plan.layout.plan.joins, at.tables)
            found = self._storing.store(running, batch, frames, bounds, commit)
            times = found.times or times
            if not found.failed:
                seconds = time.perf_counter() - began
                return TakenBatch(found.commit, tuple(charged), versions, found.divided, seconds, times)
            charged += charged_for(found.failed, running, batch, frames, bounds)
            gone = {one.definition.id for one in charged}
            definitions = [d for d in definitions if d.id not in gone]
            self.rows.forget(commit.number)
        seconds = time.perf_counter() - began if charged else 0.0
        return TakenBatch(None, tuple(charged), seconds=seconds, times=times)

    def asks_for_past(self, at: Snapshot) -> bool:
        """Tell whether a query asks for rows of the past that are not among its rows."""
        known = self.progress.windows.past_taken
        return any(since_of(d.query) is not None and d.id not in known for d in at.continuous)

    def take_past(self, at: Snapshot, past: PastRows, number: int, clock_us: int) -> TakenBatch:
        """Store the rows of the past for queries that have come with a wish for it; they are not told from late ones.

        Queries that ask from the same time on are answered together; there may be more of others.
        """
        known, clock = self.progress.windows.past_taken, self.progress.clock
        known &= {number for d in at.continuous for number in self.log.catalog.editions(d.name)}  # results ask for them
        asking = [d for d in at.continuous if since_of(d.query) is not None and d.id not in known]
        if clock.seen_until_us is None or not asking:
            known |= {d.id for d in asking}
            return TakenBatch()
        since = self.asked_since(asking[0].typed)
        together = [d for d in asking if self.asked_since(d.typed) == since]
        known |= {d.id for d in together}
        bounds = Bounds(BEFORE_ALL_TIME, clock.seen_until_us, clock_us=clock_us)
        self._storing.tells_times = False
        since_us = since if isinstance(since, int) else None
        try:
            rows = past.rows(since_us, clock.seen_until_us, clock.source)
        except SourceError as error:
            return TakenBatch(charged=tuple(Charged(d, clock.seen_until_us, error.what) for d in together))
        return self.take_of(rows, together, at, bounds, TakenCommit(number, -1, 0, None, 0, past=True))

    def asked_since(self, typed: TypedQuery) -> int | str | None:
        """Return since when a query asks for the past: not before all columns that it reads are there."""
        since, there = since_of(typed.query), self.stream.known_since_us(typed.columns)
        if since is None or there is None:
            return since
        return max(since, there) if isinstance(since, int) else there

    def check_past(self, typed: TypedQuery, past: PastRows) -> None:
        """Refuse a query that asks for a past which cannot be had."""
        since = self.asked_since(typed)
        if since is not None and self.progress.clock.seen_until_us is not None:
            past.check(since if isinstance(since, int) else None, self.progress.clock.source)

    def answering(self, at: Snapshot) -> list[Definition]:
        """List the continuous queries that are not paused."""
        stopped = self.progress.windows.paused.keys() | at.paused
        return [d for d in at.continuous if d.id not in stopped]

    def _running(self, definitions: Sequence[Definition], at: Snapshot) -> RunningPlan:
        """Return the plan of queries, made once as long as they are the same."""
        divided = self.operators.gates.divided(definitions)
        if self.running is None or not is_of(self.running, definitions, divided):
            gated = [divided[d.id].gate if d.id in divided else d for d in definitions]
            plan = plan_continuous(gated, self.stream.time, at.version, self.doubtful)
            self.running = RunningPlan(plan, self._families, divided)
        return self.running

    def deliver(self, batch: TakenBatch, metrics: Metrics) -> None:
        """Leave rows for the sinks that are committed, and count them and what they cost."""
        metrics.taking += batch.seconds
        if batch.divided is not None:
            self.figures.add(batch.divided, batch.seconds)
        elif batch.seconds:
            self.figures.add_unread(batch.seconds)
        if batch.commit is not None:
            metrics.taken += batch.commit.rows
            if self.rows.plan(batch.commit.plan)[0].by_definition:
                metrics.answers += batch.commit.rows
            self._targets.deliver_rows(batch.commit.number)
            self.operators.enqueue(batch.commit, self.operators.clock())

    def deliver_answers(self, commit: TakenCommit, rows: Mapping[int, int], metrics: Metrics) -> None:
        """Leave rows for the sinks that have gone through operators, and count them; ``rows`` by query."""
        metrics.answers += commit.rows
        self.figures.add_answered(rows)
        self._targets.deliver_rows(commit.number)

    def charge(self, batch: TakenBatch) -> list[Charged]:
        """Pause the queries that failed on a row of a batch."""
        pause(batch.charged, self.progress.windows)
        return list(batch.charged)

    def keep(self, current: Mapping[int, Definition], windowed: Mapping[int, Definition]) -> None:
        """Forget the pauses of queries that are gone."""
        paused = self.progress.windows.paused
        for number in [n for n in paused if n not in current and n not in windowed and n < RULERS]:
            del paused[number]
