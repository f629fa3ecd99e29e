"""Steps of a stream in, their commits and then their answers out, each durable before the next begins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.language.options import says_changes
from penstock.share.layout import Layout
from penstock.store.answering import Answering, Due, Failure
from penstock.store.answers import AnswerLog
from penstock.store.commits import CommitLog
from penstock.store.last_said import LastSaid
from penstock.stream.agenda import Agenda
from penstock.stream.committing import Step, commit_of
from penstock.stream.metrics import Metrics
from penstock.stream.pausing import before_failures, pause_for_window
from penstock.stream.revising import Revising, Touched


class Ledger:
    """Writes down what happens to a stream."""

    def __init__(
        self,
        commits: CommitLog,
        answers: AnswerLog,
        agenda: Agenda,
        answering: Answering,
        metrics: Metrics,
        checkpoint: Path,
    ) -> None:
        """Write to two logs."""
        self.commits, self.answers, self.agenda, self.answering = commits, answers, agenda, answering
        self.progress, self.synopsis = agenda.progress, agenda.synopsis
        self.metrics, self.checkpoint = metrics, checkpoint
        self.revising = Revising(self.synopsis, self.progress, answering)
        self.said = LastSaid()
        self.let_go: Callable[[Layout], None] | None = None  # drops what is not needed where times do not tell
        self.deliver: Callable[[int, Sequence[pa.Table]], None] | None = None
        self.shown: Callable[[Sequence[pa.Table]], list[pa.Table]] = list  # writes answers as users see them

    def commit(self, step: Step, layout: Layout) -> None:
        """Write the atomic record of a step."""
        commit = commit_of(step, layout, self.progress, self.checkpoint, self.answers.last())
        partials = pa.table({}) if step.computed is None else step.computed.partials
        if step.computed is not None:
            self.metrics.add(step.computed.job.signing.sent)
        with self.metrics.timed("commit"):
            self.commits.append(commit, partials, step.about)
        self.progress.number, self.progress.batch = commit.number, commit.batch

    def answer(
        self, due: Sequence[Due], layout: Layout, touched: Touched | None = None, judged_us: int | None = None
    ) -> None:
        """Answer what is due, commit the answers on their own, and let go of what no window needs any more."""
        with self.metrics.timed("answer"):
            tables, failures = self.answering.answer(due) if due else ([], [])
            if touched:
                revised, failed = self.revising.corrections(layout, touched, judged_us)
                tables, failures = tables + revised, failures + failed
            self.metrics.evaluations, self.metrics.shared = self.answering.evaluations, self.answering.shared
            if failures:
                self._pause(failures, layout)
                tables = before_failures(tables, self.progress.paused)
            tables = self.shown(tables)
            if self.answers.last() != self.progress.number:  # else a restart answers again, to know what failed
                tables = self.said.changed(tables, _saying_changes(layout))
                self.answers.append(self.progress.number, tables)
                self.metrics.answers += sum(t.num_rows for t in tables)
                self.revising.note(layout, tables)
            if self.deliver is not None:
                self.deliver(self.progress.number, tables)
            self._expire(layout)

    def restore(self, layout: Layout) -> None:
        """Know again what was said before a restart."""
        self.revising.restore(layout, self.answers)
        self.said.restore(_saying_changes(layout), self.answers)

    def forget(self, current: Collection[int]) -> None:
        """Forget the queries that are gone."""
        self.answering.forget(current)
        self.said.forget_others(current)

    def _pause(self, failures: Sequence[Failure], layout: Layout) -> None:
        """Pause the queries whose expressions over aggregates failed."""
        by_id = {d.id: d for d in layout.plan.definitions}
        for failure in sorted(failures, key=lambda f: f.window_end_us):
            definition = by_id[failure.definition]
            if definition.id not in self.progress.paused:
                self.agenda.report(definition, f" is paused: {failure.reason}", "query paused")
            pause_for_window(self.progress, definition, failure)

    def _expire(self, layout: Layout) -> None:
        """Drop slices and partials before all that is still needed."""
        if self.let_go is not None:
            self.let_go(layout)
            return
        floors = self.progress.floors(layout)
        self.synopsis.expire(floors)
        self.progress.forget_cuts(floors, [t.name for t in layout.plan.trees])
        if self.synopsis.lanes.keys() <= floors.keys():
            self.commits.expire(min(floors.values(), default=1 << 62))


def _saying_changes(layout: Layout) -> list[int]:
    """List the queries that say only answers that differ from the last one of their group."""
    return [d.id for d in layout.plan.definitions if says_changes(d.query)]
