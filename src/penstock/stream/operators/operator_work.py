"""Describes steps of operators, and queued rows that were answered, for whoever observes a stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.evaluate.typed import Definition
from penstock.kernel.operator_block import RowBlock
from penstock.language.options import option_us, priority_of
from penstock.model.instants import Clock
from penstock.stream.answered_groups import AnsweredQueue, OperatorRun, WaitingFor
from penstock.stream.operators.left_work import DUE_US
from penstock.stream.operators.operator_queues import OperatorStep
from penstock.stream.operators.queued_commit import QueuedCommit


@dataclass(frozen=True, slots=True)
class BegunStep:
    """A step that a worker is about to take, as things stand now."""

    step: OperatorStep
    stream: str
    waiting: tuple[WaitingFor, ...]
    arrival_us: int
    began_us: int
    bytes: int

    @staticmethod
    def of(step: OperatorStep, stream: str) -> BegunStep:
        """Look at who waits for a step."""
        queues, block = step.queues, step.block
        with queues.lock:
            queued, now_us = queues.commits.get(block.commit), queues.clock()
            arrival_us = now_us if queued is None else queued.arrival_us
            waiting = [(one.query.definition, int(one.rows.sum())) for one in block.waiting(step.operator.column)]
            described = tuple(_waiting_for(definition, rows, arrival_us) for definition, rows in waiting)
            return BegunStep(step, stream, described, arrival_us, now_us, block.bytes)

    def ended(self, seconds: float) -> OperatorRun:
        """Describe the step when what it computed has been filed."""
        step, block = self.step, self.step.block
        with step.queues.lock:
            left, held = _rows_left(block), block.bytes
        whose = self.stream, step.policy, step.operator.text, block.commit, block.place, self.waiting
        times = self.arrival_us, self.began_us, step.queues.clock()
        return OperatorRun(*whose, *times, len(step.places), left, self.bytes, held, seconds)


def answered_queues(
    stream: str,
    ready: Iterable[tuple[QueuedCommit, Iterable[int]]],
    counts: Mapping[int, Mapping[int, int]],
    now: Clock,
) -> list[AnsweredQueue]:
    """Describe queued rows that were answered just now; ``counts`` tells how many, by commit and query."""
    found, now_us = list[AnsweredQueue](), now()
    for queued, numbers in ready:
        taken = counts.get(queued.commit.number, {})
        some = [(queued.queries[number].definition, taken[number]) for number in numbers if number in taken]
        answered = tuple(_waiting_for(definition, rows, queued.arrival_us) for definition, rows in some)
        if answered:
            found.append(AnsweredQueue(stream, queued.commit.number, answered, queued.arrival_us, now_us))
    return found


def _waiting_for(definition: Definition, rows: int, arrival_us: int) -> WaitingFor:
    """Describe a query with its rows."""
    due_us = arrival_us + (option_us(definition.query, "deadline") or DUE_US)
    return WaitingFor(definition.id, rows, due_us, float(priority_of(definition.query)))


def _rows_left(block: RowBlock) -> int:
    """Count the rows of a block that some query still takes."""
    masks = [one.rows for one in block.queries.values()]
    return int(np.logical_or.reduce(masks).sum()) if masks else 0
