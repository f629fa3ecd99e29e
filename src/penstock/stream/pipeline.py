"""Batches of one stream in, committed partials and answers out, one Spark job each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.errors import StreamEnded
from penstock.evaluate.typed import Definition
from penstock.model.duration import SECOND
from penstock.model.schema import Stream, Table
from penstock.share.layout import Layout, lay_out
from penstock.share.locate import BySearch
from penstock.share.plan import Strategy, plan_queries
from penstock.spark.aside import keep_aside
from penstock.spark.attempted import watched_with
from penstock.spark.failures import explain_failure
from penstock.spark.finish import finish
from penstock.spark.partials import PartialsJob, time_span
from penstock.spark.tables import Tables
from penstock.spark.writer import Bounds
from penstock.store.answering import Answering, Due
from penstock.store.answers import AnswerLog
from penstock.store.commits import Commit, CommitLog, Counts
from penstock.store.synopsis import Arrived, Kernel, Synopsis
from penstock.stream.agenda import Agenda
from penstock.stream.pausing import before_failures, pause_for_rows, pause_for_window
from penstock.stream.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEFORE_ALL_TIME: Final = -(1 << 62)  # a watermark that nothing is late for
MOST_EDGES: Final = 100_000  # in the stretch of a searched batch; beyond, rows compute their slices
FORESEEN_SPANS: Final = 4  # a searched batch may reach this many times the longest batch so far ahead

Clock = Callable[[], int]
Deliver = Callable[[int, Sequence[pa.Table]], None]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The catalog as one batch sees it."""

    version: int
    definitions: tuple[Definition, ...]
    tables: Mapping[str, Table]


@dataclass(slots=True)
class Metrics:
    """What a pipeline has done: seconds by step, batches and answers."""

    job: float = 0.0
    ingest: float = 0.0
    commit: float = 0.0
    answer: float = 0.0
    batches: int = 0
    answers: int = 0

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the seconds of a step."""
        began = time.perf_counter()
        yield
        setattr(self, step, getattr(self, step) + time.perf_counter() - began)


@dataclass(frozen=True, slots=True)
class Computed:
    """A batch's partials, with what they were computed by."""

    job: PartialsJob
    bounds: Bounds
    partials: pa.Table
    frames: Mapping[str, DataFrame]
    versions: Mapping[str, str]
    clock_us: int

    @property
    def layout(self) -> Layout:
        """Return the layout of the job."""
        return self.job.layout


def wall_clock_us() -> int:
    """Read the clock in microseconds since the epoch."""
    return time.time_ns() // 1_000


class Pipeline:
    """Processes the batches of one stream in order."""

    def __init__(
        self,
        stream: Stream,
        session: SparkSession,
        tables: Tables,
        commits: CommitLog,
        answers: AnswerLog,
        strategy: Strategy = "shared paired",
        kernel: Kernel = "fast",
        clock: Clock = wall_clock_us,
    ) -> None:
        """Prepare; call :meth:`recover` before the first batch."""
        self.stream, self.session, self.tables = stream, session, tables
        self.commits, self.answers = commits, answers
        self.strategy, self.clock = strategy, clock
        self.deliver: Deliver | None = None
        self.aside: Path | None = None  # where invalid rows are kept
        self.synopsis, self.progress, self.metrics = Synopsis(kernel), Progress(), Metrics()
        self.agenda = Agenda(self.progress, self.synopsis)
        self.answering = Answering(self.synopsis, lambda requests: finish(self.session, requests))
        self._layout: Layout | None = None
        self._job: PartialsJob | None = None
        self._attempts: frozenset[int] = frozenset()  # queries that failed before: their expressions run apart
        self._span_us = 0  # of the longest batch so far

    @property
    def reports(self) -> list[str]:
        """Return what users should know: paused queries, skipped silences."""
        return self.agenda.reports

    def process(self, batch: DataFrame, batch_id: int, snapshot: Snapshot, source: str = "") -> None:
        """Take one batch: partials, synopsis, commit, answers."""
        if batch_id <= self.progress.batch:
            return  # committed before a restart
        if self.progress.ended:
            hint = "Start a new state folder for new rows."
            raise StreamEnded(f'stream "{self.stream.name}" was ended, and more rows came', hint=hint)
        with self.metrics.timed("job"):
            computed = self._compute(batch, self.plan(snapshot), snapshot.tables)
        with self.metrics.timed("ingest"):
            arrived = self.synopsis.ingest(computed.layout, computed.partials, computed.bounds.edges)
        if arrived.invalid and self.aside is not None:
            folder = self.aside / f"{self.progress.number + 1:012d}"
            keep_aside(batch, self.stream.time, computed.bounds.ahead_us, folder)
        self._pause(batch, computed, arrived)
        due = self._advance(arrived, computed.layout)
        self._commit(batch_id, computed, due, arrived.highest, source)
        self._answer(due, computed.layout)
        self.metrics.batches += 1

    def plan(self, snapshot: Snapshot) -> Layout:
        """Return the layout for a catalog version; a change takes effect here, between two batches."""
        if self._layout is None or self._layout.plan.version != snapshot.version:
            floors = self.progress.floors(self._layout) if self._layout else {}
            layout = lay_out(plan_queries(snapshot.definitions, self.strategy, snapshot.version), self.stream.time)
            self.progress.enter(layout, floors)
            self.synopsis.prepare(layout)
            self._attempts &= {d.id for d in snapshot.definitions}
            self._layout = layout
        if not self._attempts:
            return self._layout
        return replace(self._layout, attempts=watched_with(self._layout.plan.definitions, self._attempts))

    def flush(self, snapshot: Snapshot) -> None:
        """End the stream: answer every window that holds a row, final or not."""
        if self.progress.ended:
            return
        layout = self.plan(snapshot)
        due = self.agenda.rest(layout)
        self.progress.ended = True
        nothing = Computed(self._job_for(layout), Bounds(0, 0), pa.table({}), {}, {}, self.clock())
        self._commit(self.progress.batch, nothing, due, None, "")
        self._answer(due, layout)

    def rate(self) -> float | None:
        """Return the stream's rows per second of event time so far."""
        first, last = self.progress.first_us, self.progress.last_us
        if first is None or last is None or last <= first:
            return None
        return self.progress.counts.ingested / ((last - first) / 1e6)

    # -- the one job ---------------------------------------------------------------------------------------------

    def _compute(self, batch: DataFrame, layout: Layout, tables: Mapping[str, Table]) -> Computed:
        """Run the batch's job; again only if an expression failed or the batch left the foreseen stretch of time."""
        clock = self.clock()
        frames, versions = self.tables.current(layout.plan.joins, tables)
        bounds = self._bounds(batch, layout, clock, probe=False)
        job = self._job_for(layout.listed(bounds.edges))
        try:
            partials = job.run(batch, frames, bounds)
        except Exception as error:
            job = PartialsJob(replace(job.layout, attempts=frozenset(d.id for d in layout.plan.definitions)))
            partials = _attempted(job, batch, frames, bounds, error)
        if _beyond(layout, partials, bounds):
            bounds = self._bounds(batch, layout, clock, probe=True)
            job = PartialsJob(replace(layout.listed(bounds.edges), attempts=job.layout.attempts))
            partials = job.run(batch, frames, bounds)
        return Computed(job, bounds, partials, frames, versions, clock)

    def _job_for(self, layout: Layout) -> PartialsJob:
        """Return the job of a layout, written once for all its batches."""
        if self._job is None or self._job.layout != layout:
            self._job = PartialsJob(layout)
        return self._job

    def _bounds(self, batch: DataFrame, layout: Layout, clock_us: int, *, probe: bool) -> Bounds:
        """Fix watermark and clock, and the edges of searched trees over the stretch that the batch may cover."""
        watermark = BEFORE_ALL_TIME if self.progress.watermark_us is None else self.progress.watermark_us
        ahead = clock_us + self.stream.max_ahead_us + 1
        searched = [t for t, way in enumerate(layout.locating) if isinstance(way, BySearch)]
        if not searched:
            return Bounds(watermark, ahead)
        last, floors = self.progress.last_us, self.progress.floors(layout)
        if probe or last is None or not floors:
            low, high = time_span(batch, self.stream.time, ahead)
        else:
            low, high = min(floors.values()), last + FORESEEN_SPANS * self._span_us
        edges = {}
        for tree in searched:
            manager = layout.managers[tree]
            if manager.edge_rate(SECOND) * (high - low) / SECOND > MOST_EDGES:
                continue  # computed instead
            known = manager.edges(manager.edge_at_or_before(low), high + 1).tolist()
            edges[tree] = [*known, manager.next_edge(high)]
        return Bounds(watermark, ahead, edges)

    def _pause(self, batch: DataFrame, computed: Computed, arrived: Arrived) -> None:
        """Pause the queries that failed on a row, and run their expressions apart from now on."""
        by_id = {d.id: d for d in computed.layout.plan.definitions}
        for number, (first, last, _) in arrived.failures.items():
            definition, reason = by_id[number], ""
            if number not in self.progress.paused:
                reason = explain_failure(batch, computed.frames, computed.job, definition, first)
                self.agenda.report(f'query "{definition.name}" is paused: {reason}')
            pause_for_rows(self.progress, definition, first, last, reason)
            self._attempts |= {number}

    # -- time, commit, answers -----------------------------------------------------------------------------------

    def _advance(self, arrived: Arrived, layout: Layout) -> list[Due]:
        """Move the stream's time by a batch and list the windows that became final."""
        progress, on_time = self.progress, arrived.rows - arrived.late - arrived.invalid
        progress.counts += Counts(arrived.rows, on_time, arrived.late, arrived.invalid)
        if arrived.first_us is None or arrived.last_us is None:
            return []
        if progress.last_us is not None:
            self._span_us = max(self._span_us, arrived.last_us - progress.last_us)
        progress.see(arrived.first_us, arrived.last_us)
        watermark = progress.greatest_us() - self.stream.lateness_us
        due = self.agenda.due(layout, watermark)
        progress.watermark_us = watermark
        return due

    def _commit(self, batch_id: int, computed: Computed, due: Sequence[Due], highest: int | None, source: str) -> None:
        """Write the batch's atomic record."""
        progress, layout = self.progress, computed.layout
        starts, next_ends = progress.record()
        commit = Commit(
            number=progress.number + 1,
            batch=batch_id,
            catalog_version=layout.plan.version,
            watermark_us=progress.watermark_us,
            last_us=progress.last_us,
            first_us=progress.first_us,
            clock_us=computed.clock_us,
            counts=progress.counts,
            source=source,
            tables=dict(computed.versions),
            due={str(d.definition.id): (int(d.ends[0]), len(d.ends)) for d in due},
            starts=starts,
            next_ends=next_ends,
            paused={str(k): v for k, v in progress.paused.items()},
            attempts=tuple(sorted(layout.attempts)),
            edges={str(t): list(e) for t, e in computed.bounds.edges.items()},
            ended=progress.ended,
            highest=highest,
        )
        with self.metrics.timed("commit"):
            self.commits.append(commit, computed.partials)
        progress.number, progress.batch = commit.number, batch_id

    def _answer(self, due: Sequence[Due], layout: Layout) -> None:
        """Answer what is due, commit the answers on their own, and let go of what no window needs any more."""
        with self.metrics.timed("answer"):
            tables, failures = self.answering.answer(due) if due else ([], [])
            by_id = {one.definition.id: one.definition for one in due}
            for failure in sorted(failures, key=lambda f: f.window_end_us):
                definition = by_id[failure.definition]
                if definition.id not in self.progress.paused:
                    self.agenda.report(f'query "{definition.name}" is paused: {failure.reason}')
                pause_for_window(self.progress, definition, failure)
            if failures:
                tables = before_failures(tables, self.progress.paused)
            if self.answers.last() != self.progress.number:  # else a restart answers again, to know what failed
                self.answers.append(self.progress.number, tables)
                self.metrics.answers += sum(t.num_rows for t in tables)
            if self.deliver is not None:
                self.deliver(self.progress.number, tables)
            self._expire(layout)

    def _expire(self, layout: Layout) -> None:
        """Drop slices and partials before every window still to come."""
        floors = self.progress.floors(layout)
        self.synopsis.expire(floors)
        self.progress.forget_cuts(floors, [t.name for t in layout.plan.trees])
        if self.synopsis.lanes.keys() <= floors.keys():
            self.commits.expire(min(floors.values(), default=1 << 62))

    # -- restart -------------------------------------------------------------------------------------------------

    def recover(self, snapshot_at: Callable[[int], Snapshot]) -> None:
        """Rebuild the synopsis from committed partials and answer what was due and not answered."""
        last = self.commits.last()
        if last is None:
            return
        layout: Layout | None = None
        for commit, partials in self.commits.replay():
            layout = replace(self.plan(snapshot_at(commit.catalog_version)), attempts=frozenset(commit.attempts))
            if partials is not None:
                self.synopsis.ingest(layout, partials, {int(t): e for t, e in commit.edges.items()})
            self.progress.restore(commit)
        self._attempts = frozenset(self.progress.paused)
        if layout is not None and last.due:
            self._answer(self.agenda.recorded(layout, last), layout)


def _attempted(
    job: PartialsJob, batch: DataFrame, frames: Mapping[str, DataFrame], bounds: Bounds, error: Exception
) -> pa.Table:
    """Run the batch with every expression apart; if that fails too, the first error was not the data's."""
    try:
        return job.run(batch, frames, bounds)
    except Exception:
        raise error from None


def _beyond(layout: Layout, partials: pa.Table, bounds: Bounds) -> bool:
    """Tell whether a row of a searched tree lay behind the edges it was searched among."""
    for member in layout.members:
        if member.tree not in bounds.edges:
            continue
        rows = partials
        if "grouping" in partials.column_names:
            rows = partials.filter(pa.array(partials["grouping"].to_numpy() == member.number))
        labels, last = rows["label"].drop_null().to_numpy(), len(bounds.edges[member.tree]) - 1
        if len(labels) and (labels.max() >= last or -labels.min() - 2 >= last):
            return True
    return False
