"""Commits each step of a stream and then its answers, the most urgent first, each durable before the next begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from penstock.kernel.answering import Answering, Due, DueSessions, Failure, Spent
from penstock.kernel.arrived import first_time
from penstock.kernel.defect_bisection import answer_apart, answer_sessions_apart
from penstock.kernel.defects import defect_of
from penstock.kernel.emit_changes import EmitChanges, saying_changes
from penstock.kernel.pending import ItemKey, Pending, Rounds, pending_of
from penstock.share.layout import Layout
from penstock.store.answer_files import AnswerPart
from penstock.store.answer_parts import alike_together
from penstock.store.answers import AnswerLog, Made
from penstock.store.commits import CommitLog
from penstock.stream.answer_targets import AnswerTargets
from penstock.stream.corrections import NO_LATE_ROWS, Corrections, LateRows
from penstock.stream.defect_isolation import by_query, charge_lanes, failed_by, pause_failed
from penstock.stream.due_windows import DueWindows, Floors
from penstock.stream.executor_state import ExecutorState
from penstock.stream.metrics import Metrics, Observing
from penstock.stream.pauses import before_failures
from penstock.stream.step import Step, commit_of
from penstock.stream.unanswered import PastWindows, UnansweredWindows

MOST_LAG_S: Final = 60.0  # of work that may wait, beyond which a batch waits for the answers of those before
MOST_RUNS: Final = 20_000  # of ends that wait, beyond which they are answered first
Said = Callable[[Sequence[pa.Table]], list[pa.Table]]


class StepCommitter:
    """Writes down what happens to a stream."""

    def __init__(
        self,
        commits: CommitLog,
        answers: AnswerLog,
        due_windows: DueWindows,
        answering: Answering,
        executor_state: ExecutorState | None,
        targets: AnswerTargets,
        shown: Said,
        unanswered: UnansweredWindows,
        metrics: Metrics,
        observing: Observing,
        checkpoint: Path,
    ) -> None:
        """Write to two logs; ``targets`` take answers to what is ``unanswered``, as ``shown`` lets users see them.

        What is done is measured by ``metrics``, and ``observing`` tells of each group of answers.
        """
        self.commits, self.answers, self.due_windows, self.answering = commits, answers, due_windows, answering
        self.executor_state, self.targets, self.shown = executor_state, targets, shown
        self.progress, self.synopsis = due_windows.progress, due_windows.synopsis
        self.unanswered, self.order, self.past = unanswered, unanswered.order, PastWindows(unanswered)
        self.metrics, self.observing, self.checkpoint = metrics, observing, checkpoint
        self.corrections = Corrections(self.synopsis, self.progress, answering)
        self.said, self.rounds = EmitChanges(), Rounds(self.synopsis)
        self._defective = False  # a query was paused by a defect, and no commit tells so yet
        self._failed = False  # a query was paused while the last group was answered

    def commit(self, step: Step, layout: Layout) -> None:
        """Write the atomic record of a step, with all windows that are not answered yet."""
        if self.unanswered.runs > MOST_RUNS:  # too much to be written into every commit
            self.answer_before(layout, None)
        while self.past.runs > MOST_RUNS and step.kind != "backfill":  # which its answers must follow
            self._answer_group(self.past.take(), layout, past=True)
        step = replace(step, waiting=self.unanswered.pending(), past=self.past.pending())
        commit = commit_of(step, layout, self.progress, self.checkpoint, self.answers.last())
        partials = pa.table({}) if step.computed is None else step.computed.partials
        if step.computed is not None:
            self.metrics.add(step.computed.job.signing.sent)
            if step.computed.collected is not None and self.executor_state is not None:  # named before the commit is
                entry = self.executor_state.entry(commit.number, layout, step.computed.collected, commit.edges)
                self.executor_state.store.add(replace(entry, high=step.highest))
                self.metrics.spread += sum(file.rows for file in entry.files)
        with self.metrics.timed("commit"):
            self.commits.append(commit, partials, step.about)
        self.progress.clock.number, self.progress.clock.batch = commit.number, commit.batch

    def answer(
        self,
        due: Sequence[Pending],
        layout: Layout,
        late: LateRows = NO_LATE_ROWS,
        before_expiry: Iterable[None] = (),
    ) -> None:
        """Answer what is due, the most urgent first, and let go of what no window needs any more.

        ``before_expiry`` is done when all is answered, while the partials that this needs are all kept.
        """
        with self.metrics.timed("answer"):
            self.correct(layout, late)
            self.unanswered.add(due)
            self.drain(layout)
            for _ in before_expiry:
                pass
            self.expire(layout)
        self.charge(layout)

    def answer_first(self, due: Sequence[Pending], layout: Layout, late: LateRows = NO_LATE_ROWS) -> Iterator[None]:
        """Answer what is due, the most urgent first. Return what drops old partials, step by step."""
        with self.metrics.timed("answer"):
            self.correct(layout, late)
            self.unanswered.add(due)
            self.drain(layout)
            expiring = self.expiring(layout)
        self.charge(layout)
        return expiring

    def answer_later(self, due: Sequence[Pending], layout: Layout, late: LateRows = NO_LATE_ROWS) -> Iterator[None]:
        """Leave what is due to be answered; what late rows revise is answered now. Return what drops old partials.

        It does so step by step.
        """
        with self.metrics.timed("answer"):
            self.correct(layout, late)
            self.unanswered.add(due)
            expiring = self.expiring(layout)
            with self.metrics.timed("held"):
                while self.unanswered.seconds > MOST_LAG_S:  # rows wait in the source meanwhile
                    self._answer_group(self.unanswered.take(), layout)
        self.charge(layout)
        return expiring

    def correct(self, layout: Layout, late: LateRows) -> None:
        """Revise the answers that late rows change."""
        if late[0]:
            self._answer_group([], layout, late)
        self.corrections.forget(layout)

    def drain(self, layout: Layout) -> None:
        """Answer all that is not answered, the most urgent first."""
        while self.unanswered:  # of what is taken, all may be superseded
            self._answer_group(self.unanswered.take(all_follow=True), layout)
        self.targets.look_after_sinks()

    def answer_next(self, layout: Layout, keys: Sequence[ItemKey]) -> None:
        """Answer some items of what is not answered, in their order, as many as fit into one go."""
        with self.metrics.timed("answer"):
            self._answer_group(self.unanswered.take(keys), layout)
        self.charge(layout)

    def answer_past(self, layout: Layout) -> None:
        """Answer some windows of backfills, as many as fit into one go."""
        with self.metrics.timed("answer"):
            self._answer_group(self.past.take(), layout, past=True)
        self.charge(layout)

    def answer_all(self, layout: Layout) -> None:
        """Answer all windows that are not answered, also of backfills, whatever that takes."""
        self.answer_before(layout, None)
        while self.past:
            self._answer_group(self.past.take(), layout, past=True)

    def answer_before(self, layout: Layout, time_us: int | None) -> None:
        """Answer final windows that rows of a time and later would change; None: all."""
        with self.metrics.timed("answer"):
            due = self.unanswered.take_all() if time_us is None else self.unanswered.take_after(time_us)
            self._answer_group(due, layout)

    def answer_before_rows(self, layout: Layout, partials: pa.Table) -> None:
        """Answer final windows before late rows enter them: what they say does not depend on when they are answered.

        The executors read their files again, whatever these held before: all that they keep is answered.
        """
        if (self.unanswered or self.past) and (first := first_time(layout, partials)) is not None:
            self.answer_before(layout, None if layout.spread else first)
            self._answer_group(self.past.take_tails(first), layout, past=True)

    def charge(self, layout: Layout) -> None:
        """Pause the queries that a defect concerns, durably: what comes after a restart may not have the defect."""
        if charge_lanes(self.due_windows, layout) or self._defective:
            self._defective = False
            last = self.commits.last()
            self.commit(Step("change", (), 0 if last is None else last.clock_us), layout)

    def answer_sessions(self, due: Sequence[DueSessions], layout: Layout) -> None:
        """Answer sessions that became final, all together."""
        if not due:
            return
        with self.metrics.timed("answer"):
            began, number, self._failed = self.observing.begin(), self._next_number(), False
            tables, failures = answer_sessions_apart(self.answering, due)
            tables = alike_together(self._settled(tables, failures, layout))
            self.metrics.evaluations = self.answering.evaluations
            rows = sum(table.num_rows for table in tables)
            if tables:
                covered = {one.definition.id: int(one.sessions.ends[-1]) for one in due}
                with self.metrics.timed("log"):
                    self.answers.append(number, tables, (), Made(self.progress.clock.number, covered))
                self.metrics.answers += rows
                with self.metrics.timed("sink"):
                    self.targets.deliver(number, tables)
            ended = self._before_failures([pending_of(one, self.order.clock()) for one in due])
            logged, watermark_us = (number, rows) if tables else (None, 0), self.progress.clock.watermark_us
            spent = self.order.learn()
            self.observing.group(began, "windows", logged, ended, self.order, spent, watermark_us)

    def find_failures(self, due: Sequence[Pending], layout: Layout, late: LateRows) -> None:
        """Answer again what is in the log, to know which queries failed: format 2 tells only that some did."""
        for tables, failures in self._answered(due, layout, late):
            self._settled(tables, failures, layout, again=True)
        self.go_on(layout)

    def _answer_group(
        self, due: Sequence[Pending], layout: Layout, late: LateRows = NO_LATE_ROWS, *, past: bool = False
    ) -> None:
        """Answer windows together, log the answers and leave them for the sinks.

        They are answered in rounds that fit into memory; answers that are too many to be held wait in files.
        """
        if not due and not late[0]:
            return
        began, number, self._failed = self.observing.begin(), self._next_number(), False
        believed = self.observing.believed(due, self.order)
        tables, written, spent = self._computed(due, layout, late, number)
        self.metrics.evaluations, self.metrics.shared = self.answering.evaluations, self.answering.shared
        rows = sum(t.num_rows for t in tables) + sum(part.holds.rows for part in written)
        if tables or written:
            with self.metrics.timed("log"):
                self.answers.append(number, tables, written, self._made(due, late, past=past))
            self.metrics.answers += rows
            with self.metrics.timed("sink"):
                self.targets.deliver(number, self.answers.large(number) or tables)
        if tables and not late[0]:
            self.order.groups.note(time.perf_counter() - began.seconds - sum(one.seconds for one in spent))
        logged = (number, rows) if tables or written else (None, 0)
        done, watermark_us = self._before_failures(due), self.progress.clock.watermark_us
        about = done, self.order, spent, watermark_us, believed
        self.observing.group(began, "past" if past else "revisions" if late[0] else "windows", logged, *about)

    def _computed(
        self, due: Sequence[Pending], layout: Layout, late: LateRows, number: int
    ) -> tuple[list[pa.Table], list[AnswerPart], list[Spent]]:
        """Compute the answers of a group, as tables and as parts that are in files already, and what they took."""
        away, began = [one for one in due if not self.synopsis.keeps(one.lane)], self.observing.begin()
        written = list(self._written(away, layout, number)) if away else []
        elsewhere = self.observing.spent_on(away, began)
        here = [one for one in due if self.synopsis.keeps(one.lane)] if away else due
        tables, listening = list[pa.Table](), self.order.listening(here)
        for answered, failures in self._answered(here, layout, late):
            if tables and self.rounds.are_much(tables) and (parts := self.answers.spill(number, tables)) is not None:
                written, tables = [*written, *parts], []
            said = self._settled(answered, failures, layout)
            listening.note(said)
            tables = alike_together([*tables, *said])
        listening.learn()
        return tables, written, [*self.order.learn(), *elsewhere]

    def _before_failures(self, due: Sequence[Pending]) -> Sequence[Pending]:
        """Leave out the windows that were not answered because their queries failed in this group."""
        if not self._failed:
            return due
        paused = self.progress.windows.paused
        cut = [one.upto(paused[d].until_us) if (d := one.definition.id) in paused else one for one in due]
        return [one for one in cut if len(one.ends)]

    def _next_number(self) -> int:
        """Return the number of the next answers: as long as a commit has one group, that of the commit."""
        last = self.answers.last()
        return max(self.progress.clock.number, -1 if last is None else last + 1)

    def _made(self, due: Sequence[Pending], late: LateRows, *, past: bool) -> Made:
        """Tell a restart what answers cover: windows of backfills are told apart, by their first and last end."""
        number, covered = self.progress.clock.number, self._covered(due)
        if not past:
            return Made(number, covered, corrected=bool(late[0]) and not self._failed)
        firsts: dict[int, int] = {}
        for one in due:
            firsts[one.definition.id] = min(one.ends.first_us, firsts.get(one.definition.id, one.ends.first_us))
        return Made(number, past={d: (firsts[d], last) for d, last in covered.items()})

    def _covered(self, due: Sequence[Pending]) -> dict[int, int]:
        """Tell up to which end each query is answered: one that failed, up to its failure."""
        paused, covered = self.progress.windows.paused, dict[int, int]()
        for one in due:
            number, last = one.definition.id, one.ends.last_us
            covered[number] = min(last, paused[number].until_us) if number in paused else last
        return covered

    def go_on(self, layout: Layout) -> None:
        """Go on from answers that are in the log: what no window needs any more goes."""
        self.corrections.forget(layout)
        self.expire(layout)

    def _answered(
        self, due: Sequence[Pending], layout: Layout, late: LateRows
    ) -> Iterator[tuple[list[pa.Table], list[Failure]]]:
        """Answer what the driver keeps, round by round; with the last one comes what late rows have changed."""
        tables, failures = list[pa.Table](), list[Failure]()
        for place, listed in enumerate(self.rounds.cut(due)):
            if place:
                yield tables, failures
            chosen = [one for one in map(self._before_pause, listed) if len(one.ends)]
            before = self.answering.rows
            tables, failures = answer_apart(self.answering, chosen)
            self.rounds.note(self.answering.rows - before)
        for place, (revised, failed) in enumerate(self.corrections.revised(layout, *late)):
            if place:
                yield tables, failures
                tables, failures = [], []
            tables, failures = tables + revised, failures + failed
        yield tables, failures

    def _settled(
        self, tables: list[pa.Table], failures: Sequence[Failure], layout: Layout, *, again: bool = False
    ) -> list[pa.Table]:
        """Pause the queries that failed, and return what is to be said, as users see it."""
        if failures:
            self._pause(failures, layout)
            tables = before_failures(tables, self.progress.windows.paused)
        tables = self._each("its answers were written", self.shown, tables, layout)
        if not again:
            changed = partial(self.said.changed, wanted=saying_changes(layout.plan.definitions))
            tables = self._each("its answers were compared with the last ones", changed, tables, layout)
            tables = self._each("its answers were remembered", partial(self.corrections.note, layout), tables, layout)
        return tables

    def restore(self, layout: Layout, judged_us: int | None) -> None:
        """Know again what was said before a restart; ``judged_us`` is the watermark that the last rows were late by."""
        failures = list[Failure]()
        for definition in layout.plan.definitions:
            try:
                self.corrections.restore(layout, self.answers, definition, judged_us)
                self.said.restore(saying_changes([definition]), self.answers)
            except Exception as error:
                failures.append(failed_by(definition, defect_of(error, "its last answers were read")))
        self._pause(failures, layout)

    def forget(self, current: Collection[int]) -> None:
        """Forget the queries that are gone."""
        self.answering.forget(current)
        self.rounds.forget(current)
        self.unanswered.together.forget()
        self.said.forget_others(current)
        self.past.forget(current)

    def _written(self, away: Sequence[Pending], layout: Layout, number: int) -> Sequence[AnswerPart]:
        """Let the executors answer what they keep; again without the windows that fail, whose queries are paused."""
        assert self.executor_state is not None
        while away:
            try:
                answered = self.executor_state.answer(away, layout, number)
            except Exception as error:
                defect = defect_of(error, "the executors were asked for its answers")
                self._pause([failed_by(one.definition, defect) for one in away], layout)
                return ()
            if not answered.failures:
                self.answering.evaluations += answered.evaluations
                self.answering.shared += answered.shared
                return answered.parts
            self._pause(answered.failures, layout)
            pauses = self.progress.windows.paused
            cut = [one.upto(pauses[d].until_us) if (d := one.definition.id) in pauses else one for one in away]
            away = [one for one in cut if len(one.ends)]
        return ()

    def _before_pause(self, due: Due) -> Due:
        """Leave out the windows that a query does not answer because an earlier one failed."""
        paused = self.progress.windows.paused.get(due.definition.id)
        if paused is None:
            return due
        kept = due.ends <= paused.until_us
        return replace(due, ends=due.ends[kept], starts=None if due.starts is None else due.starts[kept])

    def _pause(self, failures: Sequence[Failure], layout: Layout) -> None:
        """Pause the queries whose windows could not be answered."""
        self._failed = self._failed or bool(failures)
        self._defective = pause_failed(self.due_windows, layout, failures) or self._defective

    def _each(self, doing: str, do: Said, tables: list[pa.Table], layout: Layout) -> list[pa.Table]:
        """Do something with answers; the queries that it fails for are paused, and the others go on."""
        tables, failures = by_query(doing, do, tables)
        self._pause(failures, layout)
        return tables

    def expire(self, layout: Layout) -> None:
        """Drop slices and partials before all that is still needed."""
        for _ in self.expiring(layout):
            pass

    def expiring(self, layout: Layout) -> Iterator[None]:
        """Return what drops, step by step, the slices and partials that are not needed now, to be done now or later.

        What is answered after the last commit must not be counted: a restart that answers it again needs its partials.
        """
        return self._dropping(layout, self.due_windows.needed_since(layout))

    def _dropping(self, layout: Layout, floors: Floors) -> Iterator[None]:
        """Drop slices and partials before the first time that each lane needs."""
        yield from self.due_windows.releasing(layout, floors)
        if floors is None:
            return
        if self.synopsis.lanes.keys() <= floors.keys():
            self.commits.expire(min(floors.values(), default=1 << 62))
        if self.executor_state is not None and self.executor_state.groupings:
            away = [floors.get(key) for key in self.synopsis.lanes if not self.synopsis.keeps(key)]
            if None not in away:
                self.executor_state.store.expire(min((f for f in away if f is not None), default=1 << 62))
