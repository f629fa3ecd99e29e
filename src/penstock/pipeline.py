"""One stream: batches of rows in, committed partials and answers out, one Spark job each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from penstock.errors import StreamEnded
from penstock.evaluate.due import DueEnds, due_ends, last_held_end
from penstock.evaluate.typed import Definition
from penstock.model.schema import Stream, Table
from penstock.progress import Progress
from penstock.share.layout import Layout, lay_out
from penstock.share.locate import BySearch
from penstock.share.plan import Strategy, plan_queries
from penstock.spark.failures import explain_failure, is_data_error
from penstock.spark.finish import finish
from penstock.spark.partials import compute_partials, time_span
from penstock.spark.tables import Tables
from penstock.spark.writer import Bounds
from penstock.store.answering import Answering, Due, Failure
from penstock.store.answers import AnswerLog
from penstock.store.commits import Commit, CommitLog, Counts, Paused
from penstock.store.synopsis import Arrived, Kernel, Synopsis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEFORE_ALL_TIME: Final = -(1 << 62)  # a watermark that nothing is late for


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The catalog as one batch sees it."""

    version: int
    definitions: tuple[Definition, ...]
    tables: Mapping[str, Table]


@dataclass(slots=True)
class Metrics:
    """Seconds spent in each step, of the last batch and in all."""

    job: float = 0.0
    ingest: float = 0.0
    commit: float = 0.0
    answer: float = 0.0
    batches: int = 0
    answers: int = 0


Clock = Callable[[], int]
Deliver = Callable[[int, Sequence[pa.Table]], None]


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
        """Start where the commit log stands; call :meth:`recover` before the first batch."""
        self.stream, self.session, self.tables = stream, session, tables
        self.commits, self.answers = commits, answers
        self.strategy, self.clock = strategy, clock
        self.deliver: Deliver | None = None
        self.synopsis = Synopsis(kernel)
        self.answering = Answering(self.synopsis, lambda requests: finish(self.session, requests))
        self.progress = Progress()
        self.metrics = Metrics()
        self.reports: list[str] = []
        self._layout: Layout | None = None
        self._attempts: frozenset[int] = frozenset()
        self._span_us = 0  # of the last batch, to guess the next one's stretch of time

    # -- a batch -------------------------------------------------------------------------------------------------

    def process(self, batch: DataFrame, batch_id: int, snapshot: Snapshot, source: str = "") -> None:
        """Take one batch: partials, synopsis, commit, answers."""
        if batch_id <= self.progress.batch:
            return  # committed before a restart
        if self.progress.ended:
            raise StreamEnded(
                f'stream "{self.stream.name}" was ended; more rows came', hint="Start a new state folder for new rows."
            )
        layout = self.plan(snapshot)
        clock = self.clock()
        frames, versions = self.tables.current(layout.plan.joins, snapshot.tables)
        began = time.perf_counter()
        layout, bounds, partials = self._compute(batch, layout, frames, clock)
        self.metrics.job += time.perf_counter() - began
        began = time.perf_counter()
        arrived = self.synopsis.ingest(layout, partials, bounds.edges)
        self.metrics.ingest += time.perf_counter() - began
        self._pause_failed(batch, frames, layout, arrived)
        due = self._advance(arrived, layout)
        self._commit(batch_id, layout, clock, due, partials, bounds, arrived, versions, source)
        self._answer(due, layout)
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
        return replace(self._layout, attempts=self._attempts)

    def _compute(
        self, batch: DataFrame, layout: Layout, frames: Mapping[str, DataFrame], clock: int
    ) -> tuple[Layout, Bounds, pa.Table]:
        """Run the batch's job; a second time only if an expression failed or the batch left the foreseen stretch."""
        bounds = self._bounds(batch, layout, clock, probe=False)
        try:
            partials = compute_partials(batch, layout, frames, bounds)
        except Exception as error:
            if not is_data_error(error):
                raise
            layout = replace(layout, attempts=frozenset(d.id for d in layout.plan.definitions))
            partials = compute_partials(batch, layout, frames, bounds)
        if _beyond(layout, partials, bounds):
            bounds = self._bounds(batch, layout, clock, probe=True)
            partials = compute_partials(batch, layout, frames, bounds)
        return layout, bounds, partials

    def _bounds(self, batch: DataFrame, layout: Layout, clock: int, *, probe: bool) -> Bounds:
        """Fix watermark and clock, and the edges of searched trees over the stretch that the batch may cover."""
        watermark = BEFORE_ALL_TIME if self.progress.watermark_us is None else self.progress.watermark_us
        ahead = clock + self.stream.max_ahead_us + 1
        searched = [t for t, way in enumerate(layout.locating) if isinstance(way, BySearch)]
        if not searched:
            return Bounds(watermark, ahead)
        last, floors = self.progress.last_us, self.progress.floors(layout)
        if probe or last is None or not floors:
            low, high = time_span(batch, self.stream.time, ahead)
        else:
            low, high = min(floors.values()), last + 4 * self._span_us
        edges = {}
        for tree in searched:
            manager = layout.managers[tree]
            edges[tree] = [*manager.edges(manager.edge_at_or_before(low), high + 1).tolist(), manager.next_edge(high)]
        return Bounds(watermark, ahead, edges)

    # -- time ----------------------------------------------------------------------------------------------------

    def _advance(self, arrived: Arrived, layout: Layout) -> list[Due]:
        """Move the stream's time by a batch and list the windows that became final."""
        progress = self.progress
        late = arrived.late
        progress.counts += Counts(
            arrived.rows, arrived.rows - late - arrived.invalid, late, arrived.invalid
        )
        if arrived.last_us is None:
            return []
        if progress.last_us is not None:
            self._span_us = max(self._span_us, arrived.last_us - progress.last_us)
        progress.last_us = arrived.last_us if progress.last_us is None else max(arrived.last_us, progress.last_us)
        if arrived.first_us is not None:
            known = progress.first_us
            progress.first_us = arrived.first_us if known is None else min(arrived.first_us, known)
        watermark = progress.last_us - self.stream.lateness_us
        due = self._due(layout, lambda definition: watermark, watermark)
        progress.watermark_us = watermark
        return due

    def _due(self, layout: Layout, until: Callable[[Definition], int | None], watermark_us: int) -> list[Due]:
        """List each query's windows up to a time, and move its next window behind them."""
        found = []
        for tree in layout.plan.trees:
            present = self.synopsis.presence(tree.name)
            for definition in tree.definitions:
                target = until(definition)
                first = self.progress.first_end(definition, watermark_us if target is None else max(target, watermark_us))
                if first is None or target is None:
                    continue
                ends = due_ends(definition.query.window, first, target, present, empty_too=not definition.query.grouped)
                self.progress.next_ends[definition.id] = ends.next_end_us
                ends = self._allowed(definition, ends)
                if len(ends.ends):
                    found.append(Due(definition, tree.lane_key(definition), ends.ends))
        return found

    def _allowed(self, definition: Definition, ends: DueEnds) -> DueEnds:
        """Leave out the windows of a paused query from its failure on; report a skipped silence once."""
        if ends.skipped:
            self.reports.append(f'query "{definition.name}": the stream was silent, {ends.skipped} empty windows skipped')
        paused = self.progress.paused.get(definition.id)
        if paused is None:
            return ends
        return replace(ends, ends=ends.ends[ends.ends <= paused.until_us])

    # -- failures ------------------------------------------------------------------------------------------------

    def _pause_failed(
        self, batch: DataFrame, frames: Mapping[str, DataFrame], layout: Layout, arrived: Arrived
    ) -> None:
        """Pause the queries that failed on a row, and watch them from now on."""
        by_id = {d.id: d for d in layout.plan.definitions}
        for number, (first, last, _) in arrived.failures.items():
            self._attempts |= {number}
            definition = by_id[number]
            known = self.progress.paused.get(number)
            resume = definition.query.window.end_at_or_after(last + 1 + definition.query.window.range_us)
            if known is not None:
                until, ts, reason = min(known.until_us, first), known.ts_us, known.reason
                self.progress.paused[number] = Paused(until, max(resume, known.resume_end_us), ts, reason)
                continue
            reason = explain_failure(batch, frames, layout, definition, first)
            self.progress.paused[number] = Paused(first, resume, first, reason)
            self.reports.append(f'query "{definition.name}" is paused: {reason}')

    def _pause_unanswerable(self, failures: Sequence[Failure], layout: Layout) -> None:
        """Pause the queries whose expressions over aggregates failed."""
        by_id = {d.id: d for d in layout.plan.definitions}
        for failure in sorted(failures, key=lambda f: f.window_end_us, reverse=True):
            definition = by_id[failure.definition]
            window = definition.query.window
            known = self.progress.paused.get(definition.id)
            resume = window.end_after(failure.window_end_us)
            self.progress.paused[definition.id] = Paused(
                failure.window_end_us - 1,
                max(resume, known.resume_end_us) if known else resume,
                failure.window_end_us,
                failure.reason,
            )
            self.reports.append(f'query "{definition.name}" is paused: {failure.reason}')

    def rate(self) -> float | None:
        """Return the stream's rows per second of event time so far."""
        first, last = self.progress.first_us, self.progress.last_us
        if first is None or last is None or last <= first:
            return None
        return self.progress.counts.ingested / ((last - first) / 1e6)

    def resume(self, definition: Definition) -> None:
        """Let a paused query answer again, from the first window after its failure that has not ended."""
        paused = self.progress.paused.pop(definition.id, None)
        if paused is None:
            return
        window = definition.query.window
        first = paused.resume_end_us
        if self.progress.watermark_us is not None:
            first = max(first, window.end_after(self.progress.watermark_us))
        self.progress.next_ends[definition.id] = first

    # -- commit and answers --------------------------------------------------------------------------------------

    def _commit(
        self,
        batch_id: int,
        layout: Layout,
        clock: int,
        due: Sequence[Due],
        partials: pa.Table,
        bounds: Bounds,
        arrived: Arrived | None,
        tables: Mapping[str, str],
        source: str,
    ) -> None:
        """Write the batch's atomic record."""
        began = time.perf_counter()
        progress = self.progress
        starts, next_ends = progress.record()
        commit = Commit(
            progress.number + 1,
            batch_id,
            layout.plan.version,
            progress.watermark_us,
            progress.last_us,
            progress.first_us,
            clock,
            progress.counts,
            source,
            dict(tables),
            {str(d.definition.id): (int(d.ends[0]), len(d.ends)) for d in due},
            starts,
            next_ends,
            {str(k): v for k, v in progress.paused.items()},
            tuple(sorted(layout.attempts)),
            {str(t): list(e) for t, e in bounds.edges.items()},
            progress.ended,
            arrived.highest if arrived else None,
        )
        self.commits.append(commit, partials)
        progress.number, progress.batch = commit.number, batch_id
        self.metrics.commit += time.perf_counter() - began

    def _answer(self, due: Sequence[Due], layout: Layout) -> None:
        """Answer what is due, commit the answers on their own, and let go of what no window needs any more."""
        began = time.perf_counter()
        number = self.progress.number
        tables, failures = self.answering.answer(due) if due else ([], [])
        if failures:
            self._pause_unanswerable(failures, layout)
        if failures and len(due) > 0:
            tables = [t for t in (_before_pause(t, self.progress.paused) for t in tables) if t.num_rows]
        self.answers.append(number, tables)
        if self.deliver is not None:
            self.deliver(number, tables)
        self.metrics.answers += sum(t.num_rows for t in tables)
        self._expire(layout)
        self.metrics.answer += time.perf_counter() - began

    def _expire(self, layout: Layout) -> None:
        """Drop slices and partials before every window still to come."""
        floors = self.progress.floors(layout)
        self.synopsis.expire(floors)
        self.progress.forget_cuts(floors, [t.name for t in layout.plan.trees])
        lanes = {t.lane_key(d) for t in layout.plan.trees for d in t.definitions}
        if lanes <= floors.keys():
            self.commits.expire(min(floors.values(), default=1 << 62))

    def flush(self, snapshot: Snapshot) -> None:
        """End the stream: answer every window that holds a row, final or not."""
        if self.progress.ended:
            return
        layout = self.plan(snapshot)
        due: list[Due] = []
        watermark = self.progress.watermark_us
        if watermark is not None:
            due = self._due(layout, lambda d: self._last_end(layout, d, watermark), watermark)
        self.progress.ended = True
        nothing = pa.table({})
        self._commit(self.progress.batch, layout, self.clock(), due, nothing, Bounds(0, 0), None, {}, "")
        self._answer(due, layout)

    def _last_end(self, layout: Layout, definition: Definition, watermark_us: int) -> int | None:
        """Return the later of a query's last final window and the last one that holds a row."""
        tree = next(t for t in layout.plan.trees if definition in t.definitions)
        held = last_held_end(definition.query.window, self.synopsis.presence(tree.name))
        return watermark_us if held is None else max(held, watermark_us)

    def open_windows(self, snapshot: Snapshot) -> int:
        """Count the windows that hold rows and are not final."""
        layout, watermark, number = self.plan(snapshot), self.progress.watermark_us, 0
        if watermark is None or self.progress.ended:
            return 0
        for definition in layout.plan.definitions:
            last = self._last_end(layout, definition, watermark)
            following = self.progress.next_ends.get(definition.id)
            window = definition.query.window
            if following is None:
                following = window.end_after(max(self.progress.first_us or watermark, watermark))
            if last is not None and last >= following:
                number += (last - following) // window.slide_us + 1
        return number

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
                edges = {int(t): e for t, e in commit.edges.items()}
                self.synopsis.ingest(layout, partials, edges)
            self.progress.restore(commit)
        if layout is None:
            return
        self._attempts = frozenset(self.progress.paused)
        if last.due and self.answers.last() != last.number:
            self._answer(self._recorded_due(last, layout), layout)

    def _recorded_due(self, commit: Commit, layout: Layout) -> list[Due]:
        """List the windows that a commit found due."""
        found = []
        for tree in layout.plan.trees:
            present = self.synopsis.presence(tree.name)
            for definition in tree.definitions:
                recorded = commit.due.get(str(definition.id))
                if recorded is None:
                    continue
                first, _ = recorded
                until = (commit.next_ends[str(definition.id)] or first) - 1
                ends = due_ends(definition.query.window, first, until, present, empty_too=not definition.query.grouped)
                allowed = self._allowed(definition, ends)
                found.append(Due(definition, tree.lane_key(definition), allowed.ends))
        return found


def _before_pause(table: pa.Table, paused: Mapping[int, Paused]) -> pa.Table:
    """Keep the answers of windows before their query's failure."""
    definition = table["definition"].to_pylist()
    ends = table["window_end"].cast(pa.int64()).to_pylist()
    keep = [d not in paused or e <= paused[d].until_us for d, e in zip(definition, ends, strict=True)]
    return table.filter(pa.array(keep))


def _beyond(layout: Layout, partials: pa.Table, bounds: Bounds) -> bool:
    """Tell whether a row of a searched tree lay behind the edges it was searched among."""
    for member in layout.members:
        if member.tree not in bounds.edges:
            continue
        rows = partials if "grouping" not in partials.column_names else partials.filter(
            pa.array(partials["grouping"].to_numpy() == member.number)
        )
        labels = rows["label"].drop_null().to_numpy()
        last = len(bounds.edges[member.tree]) - 1
        if len(labels) and (labels.max() >= last or (-labels.min() - 2) >= last):
            return True
    return False
