"""Processes the batches of one stream in order: one Spark job each, then a commit and its answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.errors import StateError, StreamEnded
from penstock.evaluate.typed import Definition
from penstock.kernel.answering import Answering
from penstock.kernel.arrived import Arrived
from penstock.kernel.pending import Pending
from penstock.kernel.synopsis import Kernel, Synopsis
from penstock.model.instants import Clock, steady_clock_us, wall_clock_us
from penstock.model.schema import Stream
from penstock.model.strategy import SPREAD_OVER
from penstock.share.layout import Layout, lay_out
from penstock.share.plan import Strategy, plan_queries
from penstock.share.weave.costs import DEFAULT_RATES, Rates
from penstock.spark.answers.finish import finish
from penstock.spark.failures import explain_failure
from penstock.spark.job.attempting_writer import watched_with
from penstock.spark.job.lookup_tables import LookupTables
from penstock.store.answers import AnswerLog
from penstock.store.commits import Commit, CommitLog, MemoryCommitLog
from penstock.stream.admission import Admission
from penstock.stream.admitted import Admitted
from penstock.stream.batch_job import BatchJob, BatchPartials
from penstock.stream.defect_isolation import charge_lanes
from penstock.stream.due_windows import LOG, DueWindows
from penstock.stream.executor_state import open_spreading
from penstock.stream.grouping_plan import GroupingChooser
from penstock.stream.handover import part_with
from penstock.stream.intake import Intake
from penstock.stream.late_rows import note_too_late
from penstock.stream.metrics import Metrics
from penstock.stream.past_rows import Places
from penstock.stream.pauses import apply_controls, failed_before, pause_for_rows
from penstock.stream.progress import Progress
from penstock.stream.recovery import Recovery
from penstock.stream.snapshot import Snapshot
from penstock.stream.step import Step, counts_of
from penstock.stream.step_committer import StepCommitter
from penstock.stream.tree_planner import TreePlanner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Deliver = Callable[[int, Sequence[pa.Table]], None]
COMPACTED_EVERY = 16  # commits between two looks at what can be put together or forgotten


class Pipeline:
    """Processes the batches of one stream in order."""

    synopsis_of: ClassVar[type[Synopsis]] = Synopsis
    due_windows_of: ClassVar[type[DueWindows]] = DueWindows

    def __init__(
        self,
        stream: Stream,
        session: SparkSession,
        tables: LookupTables,
        commits: CommitLog,
        answers: AnswerLog,
        places: Places,
        strategy: Strategy = "shared paired",
        kernel: Kernel = "fast",
        clock: Clock = wall_clock_us,
        spread_over: int = SPREAD_OVER,
        rates: Rates = DEFAULT_RATES,
    ) -> None:
        """Prepare; call :meth:`recover` before the first batch."""
        self.stream, self.session, self.tables = stream, session, tables
        self.commits, self.answers, self.places = commits, answers, places
        self.strategy, self.kernel, self.clock = strategy, kernel, clock
        self.spread_over, self.rates = spread_over, rates
        self.steady: Clock = steady_clock_us if clock is wall_clock_us else clock
        self.deliver: Deliver | None = None
        self.shown: Callable[[Sequence[pa.Table]], list[pa.Table]] = list  # writes answers as users see them
        self.taken: Callable[[], int] | None = None  # tells the last commit that every sink holds
        self.metrics, self.intake = Metrics(), Intake(session, stream, places)
        self._snapshot_at: Callable[[Commit], Snapshot] | None = None
        self._begin()

    def _begin(self) -> None:
        """Start with nothing seen."""
        self.synopsis, self.progress = self.synopsis_of(self.kernel), Progress()
        self.due_windows = self.due_windows_of(self.progress, self.synopsis)
        answering = Answering(self.synopsis, lambda requests: finish(self.session, requests))
        self.committer = StepCommitter(
            self.commits, self.answers, self.due_windows, answering, self.metrics, self.places.checkpoint
        )
        self.committer.deliver = lambda number, tables: self.deliver(number, tables) if self.deliver else None
        self.committer.shown = lambda tables: self.shown(tables)
        self.executor_state = open_spreading(self.session, self.places, self.kernel, self.strategy, self.stream.time)
        self.committer.executor_state = self.executor_state
        self.computing = BatchJob(self.stream, self.tables, self.progress, self.executor_state)
        self.groupings = GroupingChooser(self.computing, self.synopsis, self.commits, self.spread_over)
        self.weaving = TreePlanner(self.strategy, self.rates, self.progress, self.synopsis, self.computing)
        shared = self.progress, self.synopsis, self.computing, self.due_windows
        self.entering = Admission(self.intake.past, *shared, self._pause, self.groupings)
        self.layout: Layout | None = None  # in force; None before the first batch
        self._attempts: frozenset[int] = frozenset()  # queries that failed before: their expressions run apart
        self.half_done = False  # a step failed in the middle: memory is not what was committed
        self._beat_us, self._steady_us = self.clock(), self.steady()  # of the last batch or heartbeat

    @property
    def version(self) -> int:
        """Return the catalog version in force."""
        return 0 if self.layout is None else self.layout.plan.version

    def silent_us(self) -> int:
        """Return for how long there was neither a batch nor a heartbeat."""
        return self.steady() - self._steady_us

    def warm_up(self) -> None:
        """Let code be generated while no batch waits for it."""
        if not self._attempts:
            self.computing.warm_up(self.clock())

    @property
    def reports(self) -> list[str]:
        """Return what users should know: paused queries, skipped silences."""
        return self.due_windows.reports

    # -- what happens to a stream: rows, silence, changes, the end ------------------------------------------------

    def process(self, batch: DataFrame, batch_id: int, snapshot: Snapshot, source: str = "") -> None:
        """Take one batch: partials, synopsis, commit, answers."""
        self._mend()
        if batch_id <= self.progress.batch:
            return  # committed before a restart
        if self.progress.ended:
            what = f'stream "{self.stream.name}" was ended, but more rows came'
            raise StreamEnded(what, hint="Start a new state folder for new rows.")
        self._take(batch, batch_id, snapshot, source)
        self.metrics.batches += 1

    def heartbeat(self, snapshot: Snapshot) -> bool:
        """Let the watermark go on by the clock, not by the next tuple, after ``idle`` silence (Sharaf 2007, §2.2.2)."""
        self._mend()
        clock, watermark = self.clock(), self.progress.watermark_us
        elapsed = min(clock - self._beat_us, self.silent_us())  # a clock set forward is no silence
        if not self.stream.idle_us or watermark is None or self.progress.ended or elapsed < self.stream.idle_us:
            if clock < self._beat_us:  # a clock that was set back
                self._beat_us, self._steady_us = clock, self.steady()
            return False
        self._beat_us, self._steady_us = clock, self.steady()
        return self.advance(snapshot, min(watermark + elapsed, clock - self.stream.lateness_us))

    def advance(self, snapshot: Snapshot, watermark_us: int) -> bool:
        """Let the watermark go on without rows, and answer what that makes final; tell whether it moved."""
        layout, known = self.plan(snapshot), self.progress.watermark_us
        if self.progress.ended or (known is not None and watermark_us <= known):
            return False
        with self._whole():
            due = self.due_windows.due(layout, watermark_us)
            self.progress.watermark_us = watermark_us
            self.committer.commit(Step("heartbeat", due, self.clock()), layout)
            self.committer.answer(due, layout)
        LOG.debug("heartbeat", extra={"event": "heartbeat", "stream": self.stream.name})
        return True

    def flush(self, snapshot: Snapshot) -> None:
        """End the stream: answer every window that holds a row, final or not."""
        self._mend()
        if self.progress.ended:
            return
        layout = self.plan(snapshot)
        with self._whole():
            due, self.progress.ended = self.due_windows.rest(layout), True
            self.committer.commit(Step("flush", due, self.clock()), layout)
            self.committer.answer(due, layout)

    def settle(self, snapshot: Snapshot) -> None:
        """Let changes of the catalog take effect, and answer at once what is stored or can be had for new queries."""
        self._mend()
        if self.layout is not None and snapshot.is_of(self.layout.plan) and not self.weaving.ready:
            return
        with self._whole(), self.metrics.timed("plan"):
            known, layout = set(self.progress.starts), self._switch(snapshot)
            charge_lanes(self.due_windows, layout)
            self.groupings.pause_what_cannot_be(layout, self.due_windows)
            about = {"event": "plan changed", "stream": self.stream.name}
            LOG.info(f"queries: {len(layout.plan.definitions):,}", extra=about)
            asking = self.entering.asking([d for d in layout.plan.definitions if d.id not in known], layout)
            step = Step("change", (), self.clock())
            if asking and (past := self.entering.read_or_pause(asking, layout, snapshot.tables)) is not None:
                step = self.entering.take(past, step)
            if (watermark := self.progress.watermark_us) is not None and not self.progress.ended:
                step = replace(step, due=self.due_windows.due(layout, watermark))
            if step.due or step.backfilled:
                self.committer.commit(step, layout)
                self.committer.answer(step.due, layout)

    def backfill(self, snapshot: Snapshot, chosen: Mapping[int, int | None], *, accept: bool = False) -> dict[int, int]:
        """Answer windows of the past, definition → since when; return how many each query had not answered before."""
        layout = self.plan(snapshot)
        if self.progress.watermark_us is None or not (asking := self.entering.going_back(chosen, layout)):
            return {}
        past = self.entering.read(asking, layout, snapshot.tables, accept=accept)
        with self._whole():
            step = self.entering.take_further_back(past, layout, Step("backfill", (), self.clock()))
            self.committer.commit(step, layout)
            self.committer.answer(step.due, layout)
        return dict(sum((Counter({d.definition.id: len(d.ends)}) for d in step.due), Counter()))

    def admit(self, snapshot: Snapshot, new: Sequence[Definition]) -> list[Admitted]:
        """Fix from which window on new queries will be answered; what rests on stored partials is made durable."""
        self._mend()
        promises = [self.entering.promise(d, snapshot.definitions, self.layout) for d in new]
        if self.layout is not None and any(promise.stored for promise in promises):
            with self._whole():
                self.committer.commit(Step("change", (), self.clock()), self.layout)
        return [Admitted(d, p.first_end_us, p.why) for d, p in zip(new, promises, strict=True)]

    def try_out(self, snapshot: Snapshot, new: Definition) -> None:
        """Raise if a query asks for a past that cannot be had."""
        self._mend()
        self.entering.try_out(new, snapshot.definitions, self.layout)

    def plan(self, snapshot: Snapshot) -> Layout:
        """Return the layout for a catalog version; a change takes effect first."""
        self.settle(snapshot)
        assert self.layout is not None
        watched = watched_with(self.layout.plan.definitions, self._attempts) if self._attempts else self._attempts
        return replace(self.layout, attempts=watched) if watched else self.layout

    # -- one batch -----------------------------------------------------------------------------------------------

    def _take(self, batch: DataFrame, batch_id: int, snapshot: Snapshot, source: str) -> None:
        """Take one batch whole."""
        layout, clock, number = self.plan(snapshot), self.clock(), self.progress.number + 1
        judged = self.computing.judged_by(clock)
        with self.intake.without_duplicates(batch, number, judged) as (rows, repeated):
            with self.metrics.timed("job"):
                try:
                    layout = self.groupings.laid_out(layout, rows, snapshot.tables, judged)
                    self.layout = replace(layout, attempts=frozenset()) if layout.attempts else layout
                    computed = self.computing.run(rows, layout, snapshot.tables, judged)
                except BaseException:
                    self.intake.forget_after(number - 1)  # keys of a commit that never was
                    raise
            with self._whole():
                with self.metrics.timed("ingest"):
                    arrived = self.synopsis.ingest(computed.layout, computed.partials, computed.bounds.edges)
                self.progress.invalid += self.intake.put_aside(rows, number, (batch_id, source), computed)
                self.intake.keep_for(snapshot, rows, number, judged, self.progress.frontier_us)
                note_too_late(rows, computed, arrived, self.computing, snapshot)
                self._pause(rows, computed, arrived)
                before, due = self.progress.watermark_us, self._advance(arrived, repeated, computed.layout)
                self._beat_us, self._steady_us = clock, self.steady()
                self.progress.source = source or self.progress.source
                step = Step("batch", due, clock, computed, arrived.highest, before, batch=batch_id)
                self.committer.commit(step, computed.layout)
                if compact := self.progress.number % COMPACTED_EVERY == 0:  # before partials go
                    self.commits.compact()
                self.committer.answer(due, computed.layout, arrived.touched, before)
                self.committer.tidy_up(self.intake, snapshot.definitions, layout, self.taken, compact=compact)
        self.weaving.look()

    def _pause(self, batch: DataFrame, computed: BatchPartials, arrived: Arrived) -> None:
        """Pause the queries that failed on a row, and run their expressions apart from now on; and for defects."""
        charge_lanes(self.due_windows, self.layout or computed.layout, arrived.last_us)
        by_id = {d.id: d for d in computed.layout.plan.definitions}
        self._attempts |= computed.doubting
        for number, (first, last, _) in arrived.failures.items():
            definition, reason = by_id[number], ""
            if number not in self.progress.paused:
                reason = explain_failure(batch, computed.frames, computed.job, definition, first)
                self.due_windows.report(definition, f" is paused: {reason}", "query paused")
            pause_for_rows(self.progress, definition, first, last, reason)
            self._attempts |= {number}

    def _advance(self, arrived: Arrived, repeated: int, layout: Layout) -> list[Pending]:
        """Move the stream's time by a batch and list the windows that became final."""
        progress = self.progress
        progress.counts += counts_of(arrived, repeated)
        if arrived.first_us is None or arrived.last_us is None:
            return []
        self.computing.see(arrived.first_us, arrived.last_us, arrived.rows)
        progress.see(arrived.first_us, arrived.last_us)
        due = self.due_windows.due(layout, watermark := progress.watermark_after(self.stream.lateness_us))
        progress.watermark_us = watermark
        return due

    # -- changes of the catalog, and restart ---------------------------------------------------------------------

    def _switch(self, snapshot: Snapshot, trees: Mapping[str, str] | None = None) -> Layout:
        """Plan anew; new queries get their start, and queries are paused and resumed; ``trees``: those of a commit."""
        before = None if self.layout is None else self.layout.plan
        woven = self.weaving.trees_of(snapshot.definitions, trees)
        plan = plan_queries(snapshot.definitions, self.strategy, snapshot.version, before, woven)
        layout = lay_out(plan, self.stream.time, self.groupings.feeding, self.intake.doubtful)
        part_with(self.progress, before, plan)
        self.progress.switch(layout, self.layout)
        self.synopsis.prepare(layout)
        self.synopsis.reopen(self.progress.floors_of(layout, before))
        self.committer.forget(current := {d.id: d for d in snapshot.definitions})
        self._attempts &= current.keys()
        apply_controls(self.progress, snapshot.controls, current)
        self.layout = layout
        return layout

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Note a step that fails in the middle: it must not be seen by the next one."""
        self.half_done = True
        yield
        self.half_done = False

    def _mend(self) -> None:
        """After a step that failed in the middle, go back to what was committed."""
        if not self.half_done:
            return
        if isinstance(self.commits, MemoryCommitLog):
            what = f'stream "{self.stream.name}" failed in the middle of a step and has no state folder to go back to'
            raise StateError(what, hint="Make a new engine; give it a state folder to go on after failures.")
        assert self._snapshot_at is not None
        reports = self.reports
        self._begin()
        self.due_windows.reports[:0] = reports
        self.recover(self._snapshot_at)

    def recover(self, snapshot_at: Callable[[Commit], Snapshot]) -> None:
        """Rebuild the synopsis from committed partials and answer what was due and not answered."""
        self._snapshot_at = snapshot_at
        last, layout, arrived = self.commits.last(), None, None
        replaying = Recovery(self.due_windows, self.entering.lanes_of, self.stream.name)
        self.intake.forget_after(number := -1 if last is None else last.number)
        self.groupings.recover(snapshot_at, number)
        for commit, partials in self.commits.replay():
            self.groupings.restore(commit)
            layout = replace(self._switch(snapshot_at(commit), commit.trees), attempts=frozenset(commit.attempts))
            arrived = replaying.take(commit, partials, layout)
        self._attempts = failed_before(self.progress)
        if layout is None or last is None:
            return
        replaying.charge(layout, last, answered=self.answers.last() == last.number)
        self.weaving.restore(layout.plan.definitions)
        LOG.info(f"goes on from commit {last.number}", extra={"event": "recovered", "stream": self.stream.name})
        self.committer.restore(layout)
        touched = arrived.touched if arrived is not None and last.kind == "batch" else None
        if last.due or touched:
            with self._whole():
                self.committer.answer(self.due_windows.recorded(layout, last), layout, touched, last.judged_us)
