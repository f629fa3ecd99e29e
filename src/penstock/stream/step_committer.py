"""Commits each step of a stream and then its answers, each durable before the next begins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from penstock.kernel.answering import Answering, Due, Failure
from penstock.kernel.defect_bisection import answer_apart
from penstock.kernel.defects import defect_of
from penstock.kernel.emit_changes import EmitChanges, saying_changes
from penstock.kernel.pending import Pending, Rounds
from penstock.share.layout import Layout
from penstock.store.answer_files import AnswerPart
from penstock.store.answer_parts import alike_together
from penstock.store.answers import AnswerLog
from penstock.store.commits import CommitLog
from penstock.stream.answer_targets import AnswerTargets
from penstock.stream.corrections import Corrections, Touched
from penstock.stream.defect_isolation import by_query, charge_lanes, failed_by, pause_failed
from penstock.stream.due_windows import DueWindows
from penstock.stream.executor_state import ExecutorState
from penstock.stream.metrics import Metrics
from penstock.stream.pauses import before_failures
from penstock.stream.step import Step, commit_of

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
        metrics: Metrics,
        checkpoint: Path,
    ) -> None:
        """Write to two logs; ``targets`` take answers, which ``shown`` writes as users see them."""
        self.commits, self.answers, self.due_windows, self.answering = commits, answers, due_windows, answering
        self.executor_state, self.targets, self.shown = executor_state, targets, shown
        self.progress, self.synopsis = due_windows.progress, due_windows.synopsis
        self.metrics, self.checkpoint = metrics, checkpoint
        self.corrections = Corrections(self.synopsis, self.progress, answering)
        self.said, self.rounds = EmitChanges(), Rounds(self.synopsis)
        self._defective = False  # a query was paused by a defect, and no commit tells so yet
        self._failed = False  # a query was paused since the last answers, or while these are made

    def commit(self, step: Step, layout: Layout) -> None:
        """Write the atomic record of a step."""
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
        touched: Touched | None = None,
        judged_us: int | None = None,
        before_expiry: Callable[[], None] | None = None,
    ) -> None:
        """Answer what is due, commit the answers on their own, and let go of what no window needs any more.

        What is due is answered in rounds that fit into memory; answers that are too many to be held wait in files.
        ``before_expiry`` is called when the sinks have the answers, while the partials that these need are all kept.
        """
        with self.metrics.timed("answer"):
            number, here = self.progress.clock.number, [one for one in due if self.synopsis.keeps(one.lane)]
            written = list(self._written(due, layout)) if len(here) < len(due) else []
            again = self.answers.last() == number  # a restart answers again if some query failed, to know which
            tables: list[pa.Table] = []
            for answered, failures in self._answered(here, layout, touched, judged_us):
                much = tables and not again and self.rounds.are_much(tables)
                if much and (parts := self.answers.spill(number, tables)) is not None:
                    written, tables = [*written, *parts], []
                tables = alike_together([*tables, *self._settled(answered, failures, layout, again=again)])
            self.corrections.forget(layout)
            self.metrics.evaluations, self.metrics.shared = self.answering.evaluations, self.answering.shared
            if not again:
                with self.metrics.timed("log"):
                    complete = not (self._failed or self.synopsis.defects)
                    self.answers.append(number, tables, written, complete=complete)
                self.metrics.answers += sum(t.num_rows for t in tables) + sum(part.holds.rows for part in written)
            with self.metrics.timed("sink"):
                self.targets.deliver(number, self.answers.large(number) or tables)
            if before_expiry is not None:
                before_expiry()
            self._expire(layout)
        self._failed = False
        if charge_lanes(self.due_windows, layout) or self._defective:
            self._defective = False  # written down at once: what comes after a restart may not have the defect
            last = self.commits.last()
            self.commit(Step("change", (), 0 if last is None else last.clock_us), layout)

    def go_on(self, layout: Layout) -> None:
        """Go on from answers that are in the log: sinks may lack them, and what no window needs any more goes."""
        self.corrections.forget(layout)
        self.targets.catch_up(self.progress.clock.number)
        self._expire(layout)

    def _answered(
        self, due: Sequence[Pending], layout: Layout, touched: Touched | None, judged_us: int | None
    ) -> Iterator[tuple[list[pa.Table], list[Failure]]]:
        """Answer what the driver keeps, round by round; with the last one comes what late rows have changed."""
        tables, failures = list[pa.Table](), list[Failure]()
        for place, listed in enumerate(self.rounds.cut(due)):
            if place:
                yield tables, failures
            chosen = [one for one in map(self._before_pause, listed) if len(one.ends)]
            tables, failures = answer_apart(self.answering, chosen)
            self.rounds.note(sum(table.num_rows for table in tables))
        for place, (revised, failed) in enumerate(self.corrections.revised(layout, touched or {}, judged_us)):
            if place:
                yield tables, failures
                tables, failures = [], []
            tables, failures = tables + revised, failures + failed
        yield tables, failures

    def _settled(
        self, tables: list[pa.Table], failures: Sequence[Failure], layout: Layout, *, again: bool
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
        self.said.forget_others(current)

    def _written(self, due: Sequence[Pending], layout: Layout) -> Sequence[AnswerPart]:
        """Let the executors answer what they keep; again without the windows that fail, whose queries are paused."""
        assert self.executor_state is not None
        away = [one for one in due if not self.synopsis.keeps(one.lane)]
        while away:
            try:
                answered = self.executor_state.answer(away, layout, self.progress.clock.number)
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

    def _expire(self, layout: Layout) -> None:
        """Drop slices and partials before all that is still needed."""
        if (floors := self.due_windows.release(layout)) is None:
            return
        if self.synopsis.lanes.keys() <= floors.keys():
            self.commits.expire(min(floors.values(), default=1 << 62))
        if self.executor_state is not None and self.executor_state.groupings:
            away = [floors.get(key) for key in self.synopsis.lanes if not self.synopsis.keeps(key)]
            if None not in away:
                self.executor_state.store.expire(min((f for f in away if f is not None), default=1 << 62))
