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

import pyarrow as pa

from penstock.errors import StateError
from penstock.evaluate.typed import Definition
from penstock.kernel.pending import ItemKey, Pending
from penstock.model.sampling import share_of
from penstock.share.layout import Layout, lay_out
from penstock.share.plan import plan_queries
from penstock.store.commits import MemoryCommitLog
from penstock.stream.admitted import Admitted
from penstock.stream.batch_taking import BatchTaking, OfferedBatch
from penstock.stream.context import StreamContext
from penstock.stream.defect_isolation import charge_lanes
from penstock.stream.handover import part_with
from penstock.stream.intake import Intake
from penstock.stream.metrics import Metrics, Observing
from penstock.stream.past_steps import PastSteps
from penstock.stream.pauses import apply_controls, pause_by_hand
from penstock.stream.recovery import Recovery
from penstock.stream.snapshot import Snapshot
from penstock.stream.step import Step
from penstock.stream.stream_parts import build_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOG = logging.getLogger("penstock")


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
        self.defers_upkeep = False  # it may come after the next batch too: somebody asks for it by :meth:`do_upkeep`
        self.failure: BaseException | None = None  # of an answer that lagged behind, until a step raises it
        self._steps_waiting = 0
        self.past, self._taking = PastSteps(self), BatchTaking(self)
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
        self.note_sign_of_life(self.clock())
        self.past.renew()
        self._taking.begin_after(-1)

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
    def is_free(self) -> bool:
        """Tell whether no step has, or waits to have, what is in memory, and none has failed in the middle."""
        if self.is_wanted or self.half_done or not self.memory.acquire(blocking=False):
            return False
        self.memory.release()
        return True

    @property
    def version(self) -> int:
        """Return the catalog version in force."""
        return 0 if self.layout is None else self.layout.plan.version

    def silent_us(self) -> int:
        """Return for how long there was neither a batch nor a heartbeat."""
        return self.steady() - self._steady_us

    def note_sign_of_life(self, clock_us: int) -> None:
        """Let silence begin anew, as of a time: there was a batch, or a heartbeat."""
        self._beat_us, self._steady_us = clock_us, self.steady()

    def warm_up(self) -> None:
        """Let code be generated while no batch waits for it."""
        if not self.failures.attempts and not self.given.settings.cap.stops_background:
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
            raise self._taking.after_end(batch_id, source)
        with self.committer.order.under_way.taken():
            self._taking.take(OfferedBatch(batch, batch_id, source, offered, reached_us), snapshot)
        self.metrics.batches += 1

    def heartbeat(self, snapshot: Snapshot) -> bool:
        """Let the watermark go on by the clock, not by the next tuple, after ``idle`` silence (Sharaf 2007, §2.2.2)."""
        self._mend()
        clock, watermark = self.clock(), self.progress.clock.watermark_us
        elapsed = min(clock - self._beat_us, self.silent_us())  # a clock set forward is no silence
        if not self.stream.idle_us or watermark is None or self.progress.clock.ended or elapsed < self.stream.idle_us:
            if clock < self._beat_us:  # a clock that was set back
                self.note_sign_of_life(clock)
            return False
        self.note_sign_of_life(clock)
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
        self.drain(planning=True)  # as the plan was when these windows became final
        with self._whole(), self.metrics.timed("plan"):
            known, stopped = set(self.progress.windows.starts), set(self.progress.windows.paused)
            layout = self._switch(snapshot)
            charge_lanes(self.due_windows, layout)
            self.groupings.pause_what_cannot_be(layout, self.due_windows)
            about = {"event": "plan changed", "stream": self.stream.name}
            LOG.info(f"queries over windows: {len(layout.plan.definitions):,}", extra=about)
            asking = self.admission.asking([d for d in layout.plan.definitions if d.id not in known], layout)
            step = Step("change", (), self.clock())
            if asking and self.past.is_aside:
                self.past.backfills.ask(asking, layout, entering=True)
            elif asking and (past := self.admission.read_or_pause(asking, layout, snapshot.tables)) is not None:
                step = self.admission.take(past, layout, step)
            if (watermark := self.progress.clock.watermark_us) is not None and not self.progress.clock.ended:
                step = replace(step, due=self.due_windows.due(layout, watermark))
            resumed = stopped - self.progress.windows.paused.keys() and snapshot.controls
            if step.due or step.backfilled or resumed or (asking and self.past.is_aside):
                self.committer.commit(step, layout)
                self.committer.answer(step.due, layout)
            self._take_past(snapshot, layout)
            self.past.look()

    def _take_past(self, snapshot: Snapshot, layout: Layout) -> None:
        """Answer the rows of the past for queries without a window that have come and ask for them."""
        while self.continuous.asks_for_past(snapshot):
            number = self.progress.clock.number + 1
            with self.metrics.timed("job"):
                past = self.continuous.take_past(snapshot, self.intake.past, number, self.clock())
            for one in self.continuous.charge(past):
                self.due_windows.report(one.definition, f" is paused: {one.reason}", "query paused")
            rows = 0 if past.commit is None else past.commit.rows
            if self.progress.clock.seen_until_us is not None:
                self.committer.commit(Step("backfill", (), self.clock(), taken=rows, tables=past.versions), layout)
            self.continuous.deliver(past, self.metrics)

    def set_sampling(self, snapshot: Snapshot, level: int) -> None:
        """Fix, durably, which share of the rows queries that shed load take of the batches to come."""
        layout = self.plan(snapshot)
        if (level, level) != (self.progress.clock.sampling, self.progress.clock.asked_sampling):
            with self._whole():
                self.progress.clock.sampling = self.progress.clock.asked_sampling = level
                self.committer.commit(Step("change", (), self.clock()), layout)
            about = {"event": "sampling changed", "stream": self.stream.name}
            LOG.info(f"queries that shed load take {share_of(level)} of the rows", extra=about)

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

    # -- answers that lag behind ---------------------------------------------------------------------------------

    def answer_next(self, keys: Sequence[ItemKey]) -> None:
        """Answer some of the windows that are final, in an order that somebody has chosen."""
        with self.memory, self._whole():
            assert self.layout is not None
            self.committer.answer_next(self.layout, keys)

    def do_upkeep(self) -> bool:
        """Do the next piece of what can wait; False: there is none that can be done now."""
        with self.memory, self.observing.holding(self.clock()), self._whole():
            return self.upkeep.do_next(self._not_beside_a_job)

    @property
    def _not_beside_a_job(self) -> frozenset[str]:
        """Name the upkeep that removes files which the job of a batch may be reading, if one is under way."""
        if self.committer.order.under_way.since_us is None:
            return frozenset()
        spread = self.executor_state is not None and self.executor_state.groupings
        return frozenset({"tidying", "passed rows", *(("expiry",) if spread else ())})

    def finish_upkeep(self) -> None:
        """Do all that can wait."""
        with self.step():
            self._mend()
            with self._whole():
                self.upkeep.finish()

    def drain(self, *, planning: bool = False) -> None:
        """Answer all windows that are final, and do what can wait; before a change of the plan, what depends on it."""
        if self.half_done and self.failure is not None:
            self._mend()
        with self.memory, self._whole():
            if self.layout is not None:
                self.committer.drain(self.layout)
            self.upkeep.finish(planning=planning)

    @property
    def answering(self) -> Callable[..., Iterator[None]]:
        """Answer what is due, or leave it for later if answers may lag behind; return what drops old partials."""
        return self.committer.answer_later if self.lags else self.committer.answer_first

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
        current, windows = {d.id: d for d in snapshot.definitions}, self.progress.windows
        self.committer.order.forget(current, {**windows.unanswered, **windows.past})
        self.committer.forget(current)
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
        if self.lags or self.defers_upkeep:
            self.upkeep.leave({}, {"expiry": self.answering(due, layout)})
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

    def _foresee(
        self, layout: Layout, partials: pa.Table | None, columns: Callable[[], frozenset[str]] | None, rows: int
    ) -> None:
        """Let the code for batches like one that is read back be generated, if anybody tells their columns."""
        if columns is not None and partials is not None:
            self.code_ahead.taken_back(layout, (rows, partials.num_rows), self.clock(), columns)

    def recover(self, columns: Callable[[], frozenset[str]] | None = None) -> None:
        """Rebuild the synopsis from committed partials and answer what was due and not answered, or failed.

        ``columns`` tells those of the next batch, for which code is generated meanwhile.
        """
        last, layout, arrived = self.commits.last(), None, None
        replaying = Recovery(self.due_windows, self.sessions, self.admission.lanes_of, self.stream.name)
        self.intake.forget_after(number := -1 if last is None else last.number)
        self.continuous.recover(number, 0 if last is None else last.taken)
        self._taking.begin_after(number)
        self.groupings.recover(number)
        for commit, partials in self.commits.replay():
            self.groupings.restore(commit)
            layout = replace(
                self._switch(self.given.catalog.at(commit), commit.trees), attempts=frozenset(commit.attempts)
            )
            arrived = replaying.take(commit, partials, layout, partial(self._foresee, layout, partials, columns))
        self.failures.restore()
        if layout is None or last is None:
            return
        replaying.charge(layout, last, self.answers)
        self.weaving.restore(layout.plan.definitions)
        LOG.info(f"goes on from commit {last.number}", extra={"event": "recovered", "stream": self.stream.name})
        self.committer.restore(layout, last.judged_us if last.kind == "batch" else self.progress.clock.watermark_us)
        with self._whole():
            replaying.go_on(self.committer, layout, last, arrived)
        self.continuous.operators.recover(number)
