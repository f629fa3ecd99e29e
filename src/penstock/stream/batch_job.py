"""Runs the Spark job of a batch, or of rows of the past, and runs it again only where it must."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.errors import SourceError
from penstock.kernel.defects import is_of_spark
from penstock.kernel.signing import FailedRows, Sent
from penstock.model.schema import Stream, Table
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.share.grouping_rollup import Estimate
from penstock.share.layout import Layout
from penstock.spark.answers.executor_state import Collecting
from penstock.spark.functions.register import isolate
from penstock.spark.job.group_estimates import estimate
from penstock.spark.job.lookup_tables import LookupTables
from penstock.spark.job.partials import Beside, PartialsJob, RowsJob
from penstock.spark.job.writer import Bounds
from penstock.spark.messages import message_of
from penstock.spark.session.embedded import spark_is_over
from penstock.stream.aggregation_choice import AggregationChoice, LastBatch
from penstock.stream.executor_state import ExecutorState
from penstock.stream.progress import Progress
from penstock.stream.query_windows import NEVER
from penstock.stream.searched_edges import SearchedEdges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BEFORE_ALL_TIME: Final = -(1 << 62)  # a watermark that nothing is late for
FEW_ROWS: Final = 20_000  # of a batch: up to so many, a plan that is new runs interpreted
YOUNG: Final = 3  # batches for which a plan is new


@dataclass(frozen=True, slots=True)
class BatchPartials:
    """A batch's partials, with what they were computed by."""

    job: PartialsJob
    bounds: Bounds
    partials: pa.Table
    frames: Mapping[str, DataFrame]
    versions: Mapping[str, str]
    collected: Collecting | None = None  # files of the executors
    doubting: frozenset[int] = frozenset()  # queries that read a computed column which may have failed on some row
    beside: pa.Table | None = None  # the rows as they were sent, with all that was asked for beside

    @property
    def layout(self) -> Layout:
        """Return the layout of the job."""
        return self.job.layout


class BatchJob:
    """Runs the jobs of one stream."""

    def __init__(
        self,
        stream: Stream,
        tables: LookupTables,
        progress: Progress,
        executor_state: ExecutorState | None,
        families: ConditionGroupMemory,
        choice: AggregationChoice,
    ) -> None:
        """Prepare; ``progress`` tells what rows are judged by, ``executor_state`` keeps what the driver does not.

        ``families`` remembers, from plan to plan, which conditions are told apart together; ``choice`` says who
        makes partials of rows.
        """
        self.stream, self.tables, self.progress, self.executor_state = stream, tables, progress, executor_state
        self._edges = SearchedEdges(stream, progress)
        self.families, self.choice = families, choice
        self._job: PartialsJob | None = None
        self._batch: DataFrame | None = None  # the last one
        self._rows = FEW_ROWS + 1  # of the last batch
        self._seen_none = True  # no batch, so far
        self._age = YOUNG  # batches since the plan changed; the first one is compiled at once
        self._compiled: PartialsJob | None = None  # whose code was generated before its time

    def judged_by(self, clock_us: int) -> Bounds:
        """Fix what a batch is judged by: the watermark, and the clock."""
        watermark = BEFORE_ALL_TIME if self.progress.clock.watermark_us is None else self.progress.clock.watermark_us
        return Bounds(watermark, clock_us + self.stream.max_ahead_us + 1, clock_us=clock_us)

    @property
    def sent(self) -> Sent | None:
        """Return what the last job sent; None before the first."""
        return None if self._job is None else self._job.signing.sent

    def see(self, first_us: int, last_us: int, rows: int) -> None:
        """Note how far a batch reached, ahead and back, and its size, to foresee the next one's."""
        self._rows, self._seen_none = rows, False
        self._edges.see(first_us, last_us)

    def run(
        self,
        batch: DataFrame,
        layout: Layout,
        known: Mapping[str, Table],
        judged: Bounds,
        beside: Beside | None = None,
    ) -> BatchPartials:
        """Run the batch's job; again only if an expression failed or the batch left the foreseen stretch of time.

        If rows are sent, and they are few, the columns ``beside`` are sent with them.
        """
        judged = replace(judged, revised=self.progress.windows.revised(layout))
        self._batch = batch
        return self._run(batch, layout, known, judged, foreseen=True, beside=beside)

    def estimate(
        self, batch: DataFrame, layout: Layout, known: Mapping[str, Table], judged: Bounds
    ) -> dict[str, Estimate]:
        """Estimate the partials of a layout's groupings, and of unions of them, tree by tree."""
        judged = replace(judged, revised=self.progress.windows.revised(layout))
        frames, _ = self.tables.current(layout.plan.joins, known)
        bounds = self._edges.bounds(batch, layout, judged, foreseen=True)
        job = PartialsJob(layout.listed(bounds.edges), self.families)
        try:
            return estimate(job, batch, frames, bounds)
        except Exception as error:
            if not isolate(batch.sparkSession, error):
                raise
        return estimate(job, batch, frames, bounds)

    @property
    def last_rows(self) -> int | None:
        """Return how many rows the last batch had; None before the first."""
        return None if self._batch is None else self._rows

    def sends_rows(self, layout: Layout, batch: DataFrame) -> bool:
        """Tell whether the rows of the next batch are to be sent to the driver."""
        return self.choice.sends_rows(layout, batch, self._last, self.cores)

    def warm_up(self, clock_us: int) -> None:
        """Let Spark generate the code of a plan that will be run compiled from the next batch on; any thread may do so.

        A job with joins is left to its batch: planning it would run jobs for its tables.
        """
        batch, job = self._batch, self._job
        if batch is None or job is None or job is self._compiled or self._age != YOUNG or job.layout.plan.joins:
            return
        self._compiled = job
        with suppress(Exception):  # whatever fails here, the batch will tell
            judged = replace(self.judged_by(clock_us), revised=self.progress.windows.revised(job.layout))
            job.compile(batch, self._edges.bounds(batch, job.layout, judged, foreseen=True))

    def ahead(self, layout: Layout, clock_us: int, last: LastBatch) -> tuple[Callable[[], PartialsJob], Bounds]:
        """Return who writes the job that batches like the last one will have, and what it is judged by.

        Another thread may write it: it groups conditions as a process does that has just begun.
        """
        judged = replace(self.judged_by(clock_us), revised=self.progress.windows.revised(layout))
        bounds = self._edges.bounds(None, layout, judged, foreseen=True)
        listed, families = layout.listed(bounds.edges), self.families.copy()
        kind = RowsJob if self.choice.sends_rows(listed, None, last, self.cores) else PartialsJob
        return lambda: kind(listed, families), bounds

    def of_the_past(self, rows: DataFrame, layout: Layout, known: Mapping[str, Table], before_us: int) -> BatchPartials:
        """Run a job over rows of the past, none of which is late."""
        judged = Bounds(BEFORE_ALL_TIME, before_us, revised=tuple((NEVER, NEVER, NEVER) for _ in layout.revising))
        try:
            return self._run(rows, layout, known, judged, foreseen=False)
        except Exception as error:
            if not is_of_spark(error) or spark_is_over():
                raise
            what = f'the past of stream "{self.stream.name}" cannot be read: {message_of(error)}'
            raise SourceError(what, hint="Fix what it names, and ask again.") from None

    def once_more(self, rows: DataFrame, layout: Layout, before: BatchPartials) -> BatchPartials:
        """Run a job over some rows of a batch again, for another layout, whose rows compute their slices."""
        bounds = replace(before.bounds, edges={}, revised=tuple((NEVER, NEVER, NEVER) for _ in layout.revising))
        job = PartialsJob(layout.listed({}), self.families)
        try:
            partials = job.run(rows, before.frames, bounds)
        except Exception as error:
            if not _may_be_the_rows(error):
                raise
            job = self._attempting(job.layout)
            partials = _attempted(job, rows, before.frames, bounds, error, None)
        return BatchPartials(job, bounds, partials, before.frames, before.versions)

    def _run(
        self,
        batch: DataFrame,
        layout: Layout,
        known: Mapping[str, Table],
        judged: Bounds,
        *,
        foreseen: bool,
        beside: Beside | None = None,
    ) -> BatchPartials:
        """Run a job, and what has to be run again."""
        frames, versions = self.tables.current(layout.plan.joins, known)
        bounds = self._edges.bounds(batch, layout, judged, foreseen=foreseen)
        listed = layout.listed(bounds.edges)
        last, cores = self._last if foreseen else None, self.cores
        rows_sent = self.choice.sends_rows(listed, batch, last, cores)
        job = self._job_for(listed, rows_sent=rows_sent) if foreseen else self._written(listed, rows_sent=rows_sent)
        job.expected_rows, job.cores = self._rows if foreseen else 0, cores
        job.is_sampled = foreseen and self.progress.clock.sampling > 0
        whole = beside is not None and job.sends_rows and self.choice.sends_whole_rows(batch, self._last)
        job.beside = beside if whole else None
        young = foreseen and self._age < YOUNG and self._rows <= FEW_ROWS
        self._age = min(YOUNG, self._age + foreseen)
        into, doubting = self._into(layout), frozenset[int]()
        try:
            try:
                partials = job.run(batch, frames, bounds, interpreted=young, into=into)
            except Exception as error:
                if not (job.sends_rows and self.choice.leaves_to_spark(error)):
                    raise
                job = self._job = PartialsJob(listed, self.families)
                partials = job.run(batch, frames, bounds, into=into)
        except Exception as error:
            if not _may_be_the_rows(error):
                raise
            doubting = _readers(layout)
            isolate(batch.sparkSession, error)
            job = self._attempting(job.layout)
            into = self._into(layout)
            partials = _attempted(job, batch, frames, bounds, error, into)
        if self._edges.missed(layout, partials, bounds):
            bounds = self._edges.bounds(batch, layout, judged, foreseen=False)
            listed = replace(layout.listed(bounds.edges), attempts=job.layout.attempts)
            job = self._written(listed, rows_sent=job.sends_rows)
            into = self._into(layout)
            partials = job.run(batch, frames, bounds, into=into)
        return BatchPartials(job, bounds, partials, frames, versions, into, doubting, job.taken_beside())

    def _attempting(self, layout: Layout) -> PartialsJob:
        """Write the job of a layout with every expression of every query apart."""
        return PartialsJob(replace(layout, attempts=frozenset(d.id for d in layout.plan.definitions)), self.families)

    def _written(self, layout: Layout, *, rows_sent: bool) -> PartialsJob:
        """Write the job of a layout, whose rows Spark aggregates or sends."""
        return (RowsJob if rows_sent else PartialsJob)(layout, self.families)

    def _into(self, layout: Layout) -> Collecting | None:
        """Prepare for the files that executors write in a job; None: they write none."""
        return (
            self.executor_state.collecting(layout, self.progress.clock.number + 1)
            if self.executor_state is not None
            else None
        )

    def _job_for(self, layout: Layout, *, rows_sent: bool) -> PartialsJob:
        """Return the job of a layout, written once for all its batches."""
        before = self._job
        if before is None or before.layout != layout or before.sends_rows != rows_sent:
            self._job = self._written(layout, rows_sent=rows_sent)
            if before is not None and before.shape != self._job.shape:
                self._age = 0
        assert self._job is not None
        return self._job

    @property
    def cores(self) -> int:
        """Return on how many cores Spark aggregates."""
        return self.tables.session.sparkContext.defaultParallelism

    @property
    def _last(self) -> LastBatch | None:
        """Return what is known of the last batch."""
        sent = self.sent
        return (
            None if sent is None or self._seen_none else LastBatch(self._rows, sent.partials, rows_sent=sent.rows > 0)
        )


def _attempted(
    job: PartialsJob,
    batch: DataFrame,
    frames: Mapping[str, DataFrame],
    bounds: Bounds,
    error: Exception,
    into: Collecting | None,
) -> pa.Table:
    """Run the batch with every expression apart; if that fails too, the first error was not the data's."""
    try:
        return job.run(batch, frames, bounds, into=into)
    except Exception:
        if isinstance(error, FailedRows):
            raise
        raise error from None


def _may_be_the_rows(error: Exception) -> bool:
    """Tell whether an expression may have failed on a row; what Penstock itself raises otherwise is a defect of it."""
    return isinstance(error, FailedRows) or is_of_spark(error)


def _readers(layout: Layout) -> frozenset[int]:
    """List the queries that read a computed column without attempting it."""
    doubtful = layout.unwatched
    return frozenset(d.id for d in layout.plan.definitions if not doubtful.isdisjoint(d.typed.columns))
