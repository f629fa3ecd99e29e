"""Lets go of what a stream needs no more: keys, rows, groups, answers, and what dropped queries have left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.evaluate.typed import Definition
from penstock.model.derived import is_line
from penstock.share.layout import Layout
from penstock.stream.context import StreamContext
from penstock.stream.continuous.continuous_queries import ContinuousQueries
from penstock.stream.handover import forget_departed
from penstock.stream.intake import Intake
from penstock.stream.step_committer import StepCommitter
from penstock.stream.upkeep import Upkeep


class Leftovers:
    """What is left of the past of one stream; nothing that a restart or a sink will ask for goes."""

    def __init__(self, given: StreamContext, committer: StepCommitter, continuous: ContinuousQueries) -> None:
        """Look at a stream's logs and at its part of the catalog."""
        self.catalog, self.stream, self.committer = given.catalog.catalog, given.stream.name, committer
        self.commits, self.answers, self.targets = given.commits, given.answers, given.targets
        self.upkeep = Upkeep(committer.observing)
        self.continuous = continuous

    def tidying(
        self, intake: Intake, definitions: Sequence[Definition], layout: Layout, *, compact: bool
    ) -> Iterator[None]:
        """Let go of keys and rows; to ``compact``, also of groups and answers, step by step."""
        progress = self.committer.progress
        watermark = progress.clock.watermark_us
        if watermark is None:
            return
        intake.forget(watermark, intake.kept_for_us(definitions), progress.windows.asked.values())
        forget_departed(progress, layout, intake.past.kept_since_us)
        if compact:
            yield
            self.committer.synopsis.forget_groups(self.committer.corrections.groupings(layout))
            yield
            self._expire(definitions, watermark)
            self._expire_rows(definitions, watermark)

    def putting_together(self) -> Iterator[None]:
        """Put files of answers together, step by step, remove what has expired, and forget who has no answers left.

        This depends on no plan.
        """
        yield from self.answers.compacting(self.targets.taken())
        yield
        yield from self.continuous.rows.putting_together(self.committer.progress.clock.number)
        self._forget()

    def _expire(self, definitions: Sequence[Definition], watermark_us: int) -> None:
        """Let answers expire, also those of queries that are gone, each as long after its window as its query said."""
        keep = {d.id: d.typed.keep_us for d in definitions if d.typed.keep_us}
        if gone := self.answers.definitions() - {d.id for d in definitions}:
            keep |= self.catalog.keeping(self.stream, gone)
        self.answers.expire({number: watermark_us - keep_us for number, keep_us in keep.items()})

    def _expire_rows(self, definitions: Sequence[Definition], watermark_us: int) -> None:
        """Let rows of continuous queries expire, also those of queries that are gone."""
        keep = {d.id: d.typed.keep_us for d in definitions if d.query.is_continuous}
        if gone := self.continuous.rows.definitions() - keep.keys():
            keep |= self.catalog.keeping(self.stream, gone)
        running, operators = self.continuous.running, self.continuous.operators
        plans = {None if running is None else running.number, self.continuous.operator_answers.plan_number}
        oldest = operators.oldest  # rows that wait for operators stay
        upto = self.targets.rows_taken() if oldest is None else min(self.targets.rows_taken(), oldest - 1)
        self.continuous.log.expire(upto, watermark_us, keep, plans)
        operators.forget_others(self.continuous.rows.definitions() | keep.keys())

    def _forget(self) -> None:
        """Forget definitions that no commit a restart reads was made with, and that have no answers."""
        executor_state = self.committer.executor_state
        if is_line(self.stream) or (executor_state is not None and executor_state.groupings):
            return  # what these have stored may be of earlier versions
        version = self.commits.first_version()
        if version is not None:
            self.catalog.forget(self.stream, version, self.answers.definitions() | self.continuous.rows.definitions())
