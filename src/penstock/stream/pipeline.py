"""Processes the batches of one stream in order: one Spark job each, then a commit and its answers."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.errors import StateError, StreamEnded
from penstock.evaluate.typed import Definition
from penstock.kernel.arrived import Arrived
from penstock.kernel.pending import ItemKey, Pending
from penstock.share.layout import Layout, lay_out
from penstock.share.plan import plan_queries
from penstock.store.commits import MemoryCommitLog
from penstock.stream.admitted import Admitted
from penstock.stream.context import StreamContext
from penstock.stream.defect_isolation import charge_lanes
from penstock.stream.handover import part_with
from penstock.stream.intake import Intake
from penstock.stream.late_rows import note_too_late
from penstock.stream.metrics import Began, Metrics, Observing
from penstock.stream.past_steps import PastSteps
from penstock.stream.pauses import apply_controls, pause_by_hand
from penstock.stream.recovery import Recovery
from penstock.stream.snapshot import Snapshot
from penstock.stream.step import Step, counts_of
from penstock.stream.stream_parts import build_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOG = logging.getLogger("penstock")
FEW_ROWS = 100_000  # of a batch: up to so many are kept without Spark's own way to write files
COMPACTED_EVERY = 16  # commits between two looks at what can be put together or forgotten


class Pipeline:
    """Processes the batches of one stream in order."""

    def __init__(self, given: StreamContext) -> None:
        """Prepare; call :meth:`recover` before the first batch."""
        settings = given.settings
        self.given, self.stream, self.session = given, given.stream, settings.session
        self.commits, self.answers, self.places = given.commits, given.answers, given.places
        self.clock, self.steady = settings.clock, settings.steady
        self.metrics, self.intake = Metrics(), Intake(settings.session, given.stream, given.places)
        observers = (settings.figures, *settings.observers)
        self.observing = Observing(given.stream.name, self.clock, self.metrics, observers)
        self.memory = threading.RLock()  # of whoever reads or changes what is in memory; free while a job runs
        self.lags = False  # answers may come after the next batch: somebody asks for them by :meth:`answer_next`
        self.failure: BaseException | None = None  # of an answer that lagged behind, until a step raises it
        self._steps_waiting = 0
        self.past = PastSteps(self)
        self._begin()

    def _begin(self) -> None:
        """Start with nothing seen."""
        parts = build_parts(self.given, self.intake, self.metrics, self.observing)
        self.synopsis, self.progress, self.due_windows = parts.synopsis, parts.progress, parts.due_windows
        self.executor_state, self.computing, self.groupings = parts.executor_state, parts.computing, parts.groupings
        self.weaving, self.failures, self.admission = parts.weaving, parts.failures, parts.admission
        self.committer, self.leftovers, self.code_ahead = parts.committer, parts.leftovers, parts.code_ahead
        self.continuous, self.sessions = parts.continuous, parts.sessions
        self.layout: Layout | None = None  # in force; None before the first batch
        self.upkeep = self.leftovers.upkeep  # to be done when no answer waits
        self.half_done = False  # a step failed in the middle: memory is not what was committed
        self._beat_us, self._steady_us = self.clock(), self.steady()  # of the last batch or heartbeat
        self.past.renew()
        self._looked = -1  # the last commit at which it was decided whether to compact

    @contextmanager
    def step(self) -> Iterator[None]:
        """Have all that is in memory for a step of the stream; answers that lag behind wait for it."""
        wanted_us = self.clock()
        self._steps_waiting += 1
        with self.memory, self.observing.holding(wanted_us):
            self._steps_waiting -= 1
            yield

    @property
    def is_wanted(self) -> bool:
        """Tell whether a step waits to have what is in memory."""
        return self._steps_waiting > 0

    @property
    def version(self) -> int:
        """Return the catalog version in force."""
        return 0 if self.layout is None else self.layout.plan.version

    def silent_us(self) -> int:
        """Return for how long there was neither a batch nor a heartbeat."""
        return self.steady() - self._steady_us

    def warm_up(self) -> None:
        """Let code be generated while no batch waits for it."""
        if not self.failures.attempts:
            self.computing.warm_up(self.clock())

    @property
    def reports(self) -> list[str]:
        """Return what users should know: paused queries, skipped silences."""
        return self.due_windows.reports

    # -- what happens to a stream: rows, silence, changes, the end ------------------------------------------------

    def process(
        self, batch: DataFrame, batch_id: int, snapshot: Snapshot, source: str = "", reached_us: int | None = None
    ) -> None:
        """Take one batch: partials, synopsis, commit, answers; ``reached_us`` is where others say its time stands."""
        offered = self.observing.begin()
        with self.step():
            self._mend()
        if batch_id <= self.progress.clock.batch:
            return  # committed before a restart
        if self.progress.clock.ended:
            what = f'stream "{self.stream.name}" was ended, but more rows came'
            raise StreamEnded(what, hint="Start a new state folder for new rows.")
        with self.committer.order.under_way.taken():
            self._take(batch, batch_id, snapshot, source, offered, reached_us)
        self.metrics.batches += 1

    def heartbeat(self, snapshot: Snapshot) -> bool:
        """Let the watermark go on by the clock, not by the next tuple, after ``idle`` silence (Sharaf 2007, §2.2.2)."""
        self._mend()
        clock, watermark = self.clock(), self.progress.clock.watermark_us
        elapsed = min(clock - self._beat_us, self.silent_us())  # a clock set forward is no silence
        if not self.stream.idle_us or watermark is None or self.progress.clock.ended or elapsed < self.stream.idle_us:
            if clock < self._beat_us:  # a clock that was set back
                self._beat_us, self._steady_us = clock, self.steady()
            return False
        self._beat_us, self._steady_us = clock, self.steady()
        return self.advance(snapshot, min(watermark + elapsed, clock - self.stream.lateness_us))

    def advance(self, snapshot: Snapshot, watermark_us: int) -> bool:
        """Let the watermark go on without rows, and answer what that makes final; tell whether it moved."""
        layout, known = self.plan(snapshot), self.progress.clock.watermark_us
        if self.progress.clock.ended or (known is not None and watermark_us <= known):
            return False
        with self._whole():
            due = self.due_windows.due(layout, watermark_us)
            self.progress.clock.watermark_us = watermark_us
            self.sessions.close(layout, watermark_us)
            self.committer.commit(Step("heartbeat", due, self.clock(), before_us=known), layout)
            self.committer.answer_sessions(self.sessions.due, layout)
            self.answer_later(due, layout)
        LOG.debug("heartbeat", extra={"event": "heartbeat", "stream": self.stream.name})
        return True

    def flush(self, snapshot: Snapshot) -> None:
        """End the stream: answer every window that holds a row, final or not."""
        self._mend()
        if self.progress.clock.ended:
            return
        layout = self.plan(snapshot)
        self.drain()
        with self._whole():
            due, self.progress.clock.ended = self.due_windows.rest(layout), True
            self.sessions.close(layout, None)
            self.committer.commit(Step("flush", due, self.clock()), layout)
            self.committer.answer_sessions(self.sessions.due, layout)
            self.committer.answer(due, layout)

    def settle(self, snapshot: Snapshot) -> None:
        """Let changes of the catalog take effect, and answer at once what is stored or can be had for new queries."""
        self._mend()
        if self.layout is not None and snapshot.is_of(self.layout.plan) and not self.weaving.ready:
            return
        self.drain()  # as the plan was when these windows became final
        with self._whole(), self.metrics.timed("plan"):
            known, layout = set(self.progress.windows.starts), self._switch(snapshot)
            charge_lanes(self.due_windows, layout)
            self.groupings.pause_what_cannot_be(layout, self.due_windows)
            about = {"event": "plan changed", "stream": self.stream.name}
            LOG.info(f"queries: {len(layout.plan.definitions):,}", extra=about)
            asking = self.admission.asking([d for d in layout.plan.definitions if d.id not in known], layout)
            step = Step("change", (), self.clock())
            if asking and self.past.is_aside:
                self.past.backfills.ask(asking, layout, entering=True)
            elif asking and (past := self.admission.read_or_pause(asking, layout, snapshot.tables)) is not None:
                step = self.admission.take(past, layout, step)
            if (watermark := self.progress.clock.watermark_us) is not None and not self.progress.clock.ended:
                step = replace(step, due=self.due_windows.due(layout, watermark))
            if step.due or step.backfilled or (asking and self.past.is_aside):
                self.committer.commit(step, layout)
                self.committer.answer(step.due, layout)
            self._take_past(snapshot, layout)
            self.past.look()

    def _take_past(self, snapshot: Snapshot, layout: Layout) -> None:
        """Answer the rows of the past for queries without a window that have come and ask for them."""
        while self.continuous.asks_for_past(snapshot):
            number = self.progress.clock.number + 1
            past = self.continuous.take_past(snapshot, self.intake.past, number, self.clock())
            for one in self.continuous.charge(past):
                self.due_windows.report(one.definition, f" is paused: {one.reason}", "query paused")
            rows = 0 if past.commit is None else past.commit.rows
            if self.progress.clock.seen_until_us is not None:
                self.committer.commit(Step("backfill", (), self.clock(), taken=rows, tables=past.versions), layout)
            self.continuous.deliver(past, self.metrics)

    def backfill(self, snapshot: Snapshot, chosen: Mapping[int, int | None], *, accept: bool = False) -> dict[int, int]:
        """Answer windows of the past, definition → since when; return how many each query had not answered before."""
        layout = self.plan(snapshot)
        self.drain()
        if self.progress.clock.watermark_us is None or not (asking := self.admission.going_back(chosen, layout)):
            return {}
        with self.observing.background("backfill", tuple(asking)):
            past = self.admission.read(asking, layout, snapshot.tables, accept=accept)
        with self._whole():
            step = self.admission.take_further_back(past, layout, Step("backfill", (), self.clock()))
            self.committer.commit(step, layout)
            self.committer.answer(step.due, layout)
        return dict(sum((Counter({d.definition.id: len(d.ends)}) for d in step.due), Counter()))

    def admit(self, snapshot: Snapshot, new: Sequence[Definition]) -> list[Admitted]:
        """Fix from which window on new queries will be answered; what rests on stored partials is made durable."""
        self._mend()
        if self.intake.past.are_kept:  # what is left to be done would let go of rows that are promised now
            with self._whole():
                self.upkeep.finish()
        promises = [self.admission.promise(d, snapshot.definitions, self.layout) for d in new]
        if self.layout is not None and any(promise.stored for promise in promises):
            with self._whole():
                self.committer.commit(Step("change", (), self.clock()), self.layout)
        return [Admitted(d, p.first_end_us, p.why) for d, p in zip(new, promises, strict=True)]

    def plan(self, snapshot: Snapshot) -> Layout:
        """Return the layout for a catalog version; a change takes effect first."""
        self.settle(snapshot)
        assert self.layout is not None
        return self.failures.watched(self.layout)

    # -- one batch -----------------------------------------------------------------------------------------------

    def _take(
        self,
        batch: DataFrame,
        batch_id: int,
        snapshot: Snapshot,
        source: str,
        offered: Began,
        reached_us: int | None,
    ) -> None:
        """Take one batch whole; while its job runs, final windows of earlier ones may be answered."""
        with self.step():
            layout, clock = self.plan(snapshot), self.clock()
            judged = self.computing.judged_by(clock)
            number = self.progress.clock.number + 1
        with self.intake.without_duplicates(batch, number, judged) as (rows, repeated):
            with self.metrics.timed("job"):
                try:
                    with self.step():
                        settle = partial(self.committer.answer_all, layout)
                        layout = self.groupings.laid_out(layout, rows, snapshot.tables, judged, settle)
                        self.layout = replace(layout, attempts=frozenset()) if layout.attempts else layout
                    beside = self.intake.sent_beside(snapshot)
                    before_rows = self.computing.last_rows
                    computed = self.computing.run(rows, layout, snapshot.tables, judged, beside)
                    taken = self.continuous.take(rows, snapshot, judged, number, before_rows)
                except BaseException:
                    self.intake.forget_after(number - 1)  # keys of a commit that never was
                    self.continuous.rows.forget(number)
                    raise
            with self.step(), self._whole():
                self.committer.answer_before_rows(computed.layout, computed.partials)
                with self.metrics.timed("ingest"):
                    arrived = self.synopsis.ingest(computed.layout, computed.partials, computed.bounds.edges)
                self.progress.clock.invalid += self.intake.put_aside(rows, number, (batch_id, source), computed)
                seen_until, few = self.progress.clock.seen_until_us, arrived.rows <= FEW_ROWS
                self.intake.keep_for(snapshot, rows, number, computed, seen_until, few=few)
                note_too_late(rows, computed, arrived, self.computing, snapshot)
                self.failures.pause(rows, computed, arrived, self.layout)
                for one in self.continuous.charge(taken):
                    self.due_windows.report(one.definition, f" is paused: {one.reason}", "query paused")
                before = self.progress.clock.watermark_us
                self.sessions.note_too_late(self.sessions.take(computed.layout, before))
                due = self._advance(arrived, repeated, computed.layout, reached_us)
                self.sessions.close_after_batch(computed.layout)
                self._beat_us, self._steady_us = clock, self.steady()
                self.progress.clock.source = source or self.progress.clock.source
                step = Step("batch", due, clock, computed, arrived.highest, before, batch=batch_id)
                step = replace(
                    step,
                    before_us=before,
                    taken=0 if taken.commit is None else taken.commit.rows,
                    tables=taken.versions,
                )
                self.committer.commit(step, computed.layout)
                self.continuous.deliver(taken, self.metrics)
                self.committer.answer_sessions(self.sessions.due, computed.layout)
                self.observing.batch(offered, step, number, arrived.rows, self.progress.clock.watermark_us)
                compact, late = self._is_time_to_compact(), (arrived.touched, before)
                tidying = self.leftovers.tidying(self.intake, snapshot.every, layout, compact=compact)
                if self.lags:
                    left = {"compaction": self._compacting(computed.layout), "tidying": tidying} if compact else {}
                    self.upkeep.leave(left, {"expiry": self.committer.answer_later(due, computed.layout, late)})
                    self.upkeep.catch_up()
                else:
                    putting_together = partial(self._compact, computed.layout)
                    self.committer.answer(due, computed.layout, late, putting_together if compact else None)
                    for _ in tidying:
                        pass
        self.weaving.look()
        self.given.settings.calibration.go_on()

    # -- answers that lag behind ---------------------------------------------------------------------------------

    def answer_next(self, keys: Sequence[ItemKey]) -> None:
        """Answer some of the windows that are final, in an order that somebody has chosen."""
        with self.memory, self._whole():
            assert self.layout is not None
            self.committer.answer_next(self.layout, keys)

    def do_upkeep(self) -> None:
        """Do the next piece of what can wait."""
        with self.memory, self.observing.holding(self.clock()), self._whole():
            self.upkeep.do_next()

    def drain(self) -> None:
        """Answer all windows that are final."""
        if self.half_done and self.failure is not None:
            self._mend()
        with self.memory, self._whole():
            if self.layout is not None:
                self.committer.drain(self.layout)
            self.upkeep.finish()

    def _compact(self, layout: Layout) -> None:
        """Put the partials of commits together: a restart that answers the last one again must find all of its own."""
        self.commits.compact(lambda partials: self.due_windows.needed(partials, layout))

    def _compacting(self, layout: Layout) -> Iterator[None]:
        """Do so when it is its turn, in one step."""
        self._compact(layout)
        yield

    def _is_time_to_compact(self) -> bool:
        """Tell whether a multiple of so many commits was passed since the last batch: changes are commits too."""
        before, self._looked = self._looked, self.progress.clock.number
        return self._looked // COMPACTED_EVERY > before // COMPACTED_EVERY

    def _advance(self, arrived: Arrived, repeated: int, layout: Layout, reached_us: int | None) -> list[Pending]:
        """Move the stream's time by a batch and list the windows that became final."""
        progress = self.progress
        progress.clock.counts += counts_of(arrived, repeated)
        if arrived.first_us is None or arrived.last_us is None:
            return self.due_windows.after_batch(layout, None)
        self.computing.see(arrived.first_us, arrived.last_us, arrived.rows)
        progress.clock.see(arrived.first_us, arrived.last_us)
        watermark = progress.clock.watermark_after(self.stream.lateness_us)
        watermark = watermark if reached_us is None else max(watermark, reached_us)
        due = self.due_windows.after_batch(layout, watermark)
        progress.clock.watermark_us = watermark
        return due

    # -- changes of the catalog, and restart ---------------------------------------------------------------------

    def _switch(self, snapshot: Snapshot, trees: Mapping[str, str] | None = None) -> Layout:
        """Plan anew; new queries get their start, and queries are paused and resumed; ``trees``: those of a commit."""
        before = None if self.layout is None else self.layout.plan
        woven = self.weaving.trees_of(snapshot.definitions, trees)
        plan = plan_queries(snapshot.definitions, self.given.settings.strategy, snapshot.version, before, woven)
        layout = lay_out(plan, self.stream.time, self.groupings.feeding, self.intake.doubtful)
        part_with(self.progress, before, plan)
        self.progress.switch(layout, self.layout)
        self.synopsis.prepare(layout)
        self.synopsis.reopen(self.progress.windows.floors_of(layout, before))
        self.committer.forget(current := {d.id: d for d in snapshot.definitions})
        self.failures.keep(current.keys())
        rowwise = {d.id: d for d in snapshot.continuous}
        self.continuous.keep(rowwise, current)
        apply_controls(self.progress, snapshot.controls, current | rowwise)
        known = frozenset[int]() if before is None else {d.id for d in before.definitions}
        for number in snapshot.paused & (current.keys() - known):  # a query over rows may begin long after its pause
            pause_by_hand(self.progress, current[number])
        self.layout = layout
        self.committer.order.look_at(plan.definitions)
        return layout

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Note a step that fails in the middle: it must not be seen by the next one."""
        self.half_done = True
        yield
        self.half_done = False

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Let another part of the stream take a step, of which nothing is left if it fails in the middle."""
        with self._whole():
            yield

    def make_sound(self) -> None:
        """Go back to what was committed if a step failed in the middle, and raise what an answer raised."""
        self._mend()

    def answer_later(self, due: Sequence[Pending], layout: Layout) -> None:
        """Leave windows that became final without rows to be answered, or answer them if nothing lags behind."""
        if self.lags:
            self.upkeep.leave({}, {"expiry": self.committer.answer_later(due, layout)})
        else:
            self.committer.answer(due, layout)

    def _mend(self) -> None:
        """After a step that failed in the middle, go back to what was committed."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        if not self.half_done:
            return
        if isinstance(self.commits, MemoryCommitLog):
            what = f'stream "{self.stream.name}" failed in the middle of a step and has no state folder to go back to'
            raise StateError(what, hint="Make a new engine; give it a state folder to go on after failures.")
        reports = self.reports
        self._begin()
        self.due_windows.reports[:0] = reports
        self.recover()

    def recover(self, columns: Callable[[], frozenset[str]] | None = None) -> None:
        """Rebuild the synopsis from committed partials and answer what was due and not answered, or failed.

        ``columns`` tells those of the next batch, for which code is generated meanwhile.
        """
        last, layout, arrived = self.commits.last(), None, None
        replaying = Recovery(self.due_windows, self.sessions, self.admission.lanes_of, self.stream.name)
        self.intake.forget_after(number := -1 if last is None else last.number)
        self.continuous.recover(number, 0 if last is None else last.taken)
        self._looked = number
        self.groupings.recover(number)
        for commit, partials in self.commits.replay():
            self.groupings.restore(commit)
            layout = replace(
                self._switch(self.given.catalog.at(commit), commit.trees), attempts=frozenset(commit.attempts)
            )
            arrived = replaying.take(commit, partials, layout)
            if columns is not None and arrived is not None and partials is not None:
                self.code_ahead.taken_back(layout, (arrived.rows, partials.num_rows), self.clock(), columns)
        self.failures.restore()
        if layout is None or last is None:
            return
        replaying.charge(layout, last, self.answers)
        self.weaving.restore(layout.plan.definitions)
        LOG.info(f"goes on from commit {last.number}", extra={"event": "recovered", "stream": self.stream.name})
        self.committer.restore(layout, last.judged_us if last.kind == "batch" else self.progress.clock.watermark_us)
        with self._whole():
            replaying.go_on(self.committer, layout, last, arrived)
