"""Commits what has come through the operators of a stream: rows that queries take, and pauses of those that fail."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.evaluate.typed import Definition
from penstock.model.arrays import Int64Array
from penstock.model.instants import format_instant
from penstock.model.schema import Column
from penstock.share.operators.operated import OperatedQuery
from penstock.spark.functions.measured_costs import cost_of
from penstock.spark.kept_rows.taken_rows import TakenRows
from penstock.store.taken_plan import TakenCommit
from penstock.stream.continuous.charged_rows import Charged, pause
from penstock.stream.operators.answered_rows import AnsweredBlock, AnsweredRows
from penstock.stream.operators.gates import Gates
from penstock.stream.operators.leaving_pass import CostLooks, LeavingPass
from penstock.stream.operators.operator_queues import OperatorQueues
from penstock.stream.operators.operator_work import answered_queues
from penstock.stream.operators.queued_commit import QueuedCommit
from penstock.stream.progress import Progress
from penstock.stream.step import Step

if TYPE_CHECKING:
    from penstock.stream.context import StreamContext
    from penstock.stream.pipeline import Pipeline


class OperatorAnswers:
    """Makes answers of blocks that are done, commit by commit."""

    def __init__(self, queues: OperatorQueues, leaving: LeavingPass) -> None:
        """Begin without a plan; ``leaving`` says which functions leave the pass by what they cost."""
        self.queues, self.leaving = queues, leaving
        self._plan: AnsweredRows | None = None
        self.failed: dict[int, Charged] = {}
        self.counts: dict[int, int] = {}  # rows that each query takes
        self.taken: dict[int, dict[int, int]] = {}  # the same by queued commit
        self.written: list[int] = []  # queued commits whose outputs were stored

    @property
    def plan_number(self) -> int | None:
        """Return the number of the plan that the next rows are of, if it is stored."""
        return None if self._plan is None else self._plan.number

    def store(self, ready: list[tuple[QueuedCommit, list[int]]], number: int) -> TakenCommit | None:
        """Store all rows that can be answered, for a commit that is about to be made."""
        self.failed, self.counts, self.taken, self.written = {}, {}, {}, []
        blocks: list[AnsweredBlock] = []
        for queued, numbers in ready:
            blocks += self._of(queued, [one for one in numbers if one not in self.failed])
        queries = {n: queued.queries[n] for queued, numbers in ready for n in numbers}
        if self._plan is None or not self._plan.covers(list(queries)):
            self._plan = AnsweredRows(self._all(queries))
        one_commit = ready[0][0].commit if len(ready) == 1 else None
        stored = self._plan.store(self.queues.rows, number, blocks, one_commit)
        for queued, numbers in ready:
            if stored is not None and queued.shared_with_others({n: queries[n] for n in numbers}):
                self.queues.rows.write_outputs(queued.commit.number, number, queued.outputs())
                self.written.append(queued.commit.number)
        return stored

    def _all(self, queries: dict[int, OperatedQuery]) -> list[OperatedQuery]:
        """List these queries and all others that wait, so that one plan serves them for long."""
        waiting = {n: one for queued in self.queues.commits.values() for n, one in queued.queries.items()}
        return list((waiting | queries).values())

    def _of(self, queued: QueuedCommit, numbers: list[int]) -> list[AnsweredBlock]:
        """Make the answers of one commit; a query that fails on one of its rows takes none of them."""
        found: list[dict[int, tuple[Int64Array, list[pa.Array]]]] = [{} for _ in queued.held]
        for number in numbers:
            worst: tuple[int, str] | None = None
            for place, block in enumerate(queued.held):
                if (one := block.queries.get(number)) is None:
                    continue
                places, outputs, bad = block.answer(one)
                found[place][number] = places, outputs
                if bad is not None and (worst is None or int(block.times[bad]) < worst[0]):
                    worst = int(block.times[bad]), one.reasons[bad]
            if worst is not None:
                self._fail(queued.queries[number].definition, *worst)
            else:
                taken = sum(len(one[number][0]) for one in found if number in one)
                self.counts[number] = self.counts.get(number, 0) + taken
                self.taken.setdefault(queued.commit.number, {})[number] = taken
        judged_us = queued.commit.judged_us
        return [
            AnsweredBlock(block.times, judged_us, {n: one for n, one in taken.items() if n not in self.failed})
            for block, taken in zip(queued.held, found, strict=True)
        ]

    def _fail(self, definition: Definition, first_us: int, why: str) -> None:
        """Note a query that failed."""
        reason = f"{why}, on a row of {format_instant(first_us)}"
        self.failed[definition.id] = Charged(definition, first_us, reason)


def open_operators(
    given: StreamContext, rows: TakenRows, progress: Progress, doubtful: Sequence[Column]
) -> OperatorAnswers:
    """Open the queues of a stream's operators; nothing waits before :meth:`OperatorQueues.recover`."""
    catalog, settings = given.catalog.catalog, given.settings
    gates = Gates(given.stream, catalog, doubtful, settings.desk.operators.refusal)
    caps = settings.cap, settings.cap.queues.of(given.stream.name)
    queues = OperatorQueues(rows, progress.windows, gates, catalog, settings.clock, *caps)
    return OperatorAnswers(queues, LeavingPass(gates, CostLooks(partial(cost_of, settings.session))))


def answer_what_is_through(pipeline: Pipeline) -> bool:
    """Commit what has come through, between two other steps of the stream; tell whether there was something."""
    continuous = pipeline.continuous
    queues = continuous.operators
    if not queues.commits:
        return False
    found = False
    with queues.lock:
        queues.drop_gone()
        while pipeline.layout is not None and (ready := _at_a_time(queues)):
            with pipeline.changing():
                _commit(pipeline, ready)
            found = True
    return found


def _at_a_time(queues: OperatorQueues) -> list[tuple[QueuedCommit, list[int]]]:
    """List what can be answered with one commit: all that is through, unless a stream is made of some of it.

    A stream takes the rows of one commit at a time, as late as they were.
    """
    ready, catalog = queues.through(), queues.catalog
    names = (queued.queries[number].definition.name for queued, numbers in ready for number in numbers)
    return ready[:1] if any(catalog.has("stream", name) for name in names) else ready


def _commit(pipeline: Pipeline, ready: list[tuple[QueuedCommit, list[int]]]) -> None:
    """Store, commit and deliver; queries that failed are paused, and what waits of them is let go."""
    continuous, windows = pipeline.continuous, pipeline.progress.windows
    queues, answers = continuous.operators, continuous.operator_answers
    assert pipeline.layout is not None
    number = pipeline.progress.clock.number + 1
    stored = answers.store(ready, number)
    for queued, numbers in ready:
        windows.operated |= dict.fromkeys(numbers, queued.commit.number)
    for one in answers.failed.values():
        windows.operated[one.definition.id] = max(queues.commits)
        pipeline.due_windows.report(one.definition, f" is paused: {one.reason}", "query paused")
    pause(answers.failed.values(), windows)
    if stored is not None or answers.failed:
        step = Step("change", (), pipeline.clock(), taken=0 if stored is None else stored.rows)
        pipeline.committer.commit(step, pipeline.failures.watched(pipeline.layout))
    for one_written in answers.written:  # what was stored before is in it
        queues.rows.remove_outputs(one_written, before=number)
    if stored is not None:
        continuous.deliver_answers(stored, answers.counts, pipeline.metrics)
    pipeline.observing.operators(answered_queues(pipeline.stream.name, ready, answers.taken, pipeline.clock))
    for queued, numbers in ready:
        queues.answered(queued, numbers)
    queues.let_go(answers.failed)
