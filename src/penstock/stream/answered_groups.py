"""Describes the work that a stream has done, for whoever observes it: groups of answers, batches, steps, background.

A record is made when its work is done, in the thread that did it, so an observer must be quick and must not raise.
Records hold what is there anyway: who wants to keep something of one copies it. Instants are by the engine's clock in
microseconds; seconds are by a clock that only goes forward, and only their differences mean something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from penstock.kernel.answering import Spent
from penstock.kernel.pending import ItemName, Pending
from penstock.share.layout import Layout

# Windows that were final, answers that late rows have changed, or windows of the past that a backfill asks for.
GroupKind = Literal["windows", "revisions", "past"]


@dataclass(frozen=True, slots=True)
class AnsweredRun:
    """Windows of one query that became final together and were answered together."""

    definition: int
    windows: int
    final_us: int  # when they became final; of those that were final before a restart, when the stream came back
    due_us: int  # when they were to be answered
    item: ItemName  # of work that they belong to
    seconds: float  # that were measured for the query's windows, in proportion to these


@dataclass(frozen=True, slots=True)
class AnsweredGroup:
    """Windows, or revisions, that were computed, logged and left for the sinks together."""

    stream: str
    kind: GroupKind
    number: int | None  # of the answers in the log; None: nothing was to be said
    began_us: int
    ended_us: int  # when the sinks had been left the answers
    began_s: float
    ended_s: float
    processor_s: float  # of the thread that answered them
    log_s: float  # of which the answers were written to the log
    sink_s: float  # of which they were left for the sinks
    rows: int  # of answers
    watermark_us: int | None  # of the stream meanwhile
    due: Sequence[Pending]  # what was answered; of a query that failed, what comes before its failure
    deadlines_us: Sequence[int]  # how soon after they are final the windows of each are wanted
    items: Sequence[ItemName]  # of work that each belongs to
    spent: Sequence[Spent]  # seconds measured by lane and shape; their sum is less than the whole
    believed: Mapping[int, float] = field(default_factory=dict)  # seconds of a window as expected before, by definition
    selectivities: Mapping[int, float] = field(default_factory=dict)  # with rows, as expected; not there: 1

    @property
    def seconds(self) -> float:
        """Return how long the whole group took."""
        return self.ended_s - self.began_s

    def seconds_by_query(self) -> dict[int, float]:
        """Divide what was measured among the queries, by definition: windows of one lane and shape cost the same."""
        found: dict[int, float] = {}
        for one in self.spent:
            for number, windows in _windows_by_query(one):
                found[number] = found.get(number, 0.0) + one.seconds * windows / one.windows
        return found

    def runs(self) -> Iterator[AnsweredRun]:
        """List what was answered, query by query."""
        seconds, windows = self.seconds_by_query(), dict[int, int]()
        for one in self.due:
            windows[one.definition.id] = windows.get(one.definition.id, 0) + len(one.ends)
        for one, deadline_us, item in zip(self.due, self.deadlines_us, self.items, strict=True):
            number, count = one.definition.id, len(one.ends)
            share = seconds.get(number, 0.0) * count / max(1, windows[number])
            yield AnsweredRun(number, count, one.final_us, one.final_us + deadline_us, item, share)


@dataclass(frozen=True, slots=True)
class ProcessedBatch:
    """A batch of rows whose partials are filed and committed; its windows are answered after that."""

    stream: str
    number: int  # of its commit
    batch: int  # Spark's number
    offered_us: int  # when the stream was given it
    committed_us: int
    offered_s: float
    committed_s: float
    job_s: float
    ingest_s: float
    commit_s: float
    rows: int
    bytes_sent: int  # from Spark to the driver
    partials: Sequence[int]  # by number of the grouping, as ``layout.members`` lists them
    layout: Layout
    watermark_us: int | None = None  # after it
    rows_sent: int = 0  # that the driver aggregated, not Spark


@dataclass(frozen=True, slots=True)
class BackgroundWork:
    """Work that no answer waits for: upkeep and backfills."""

    stream: str
    name: str
    began_us: int
    ended_us: int
    began_s: float
    ended_s: float
    definitions: Sequence[int] = ()  # whom it was done for; none: for all


@dataclass(frozen=True, slots=True)
class MemoryHold:
    """A time in which a step of a stream had its memory for itself: only the step itself could answer windows."""

    stream: str
    wanted_us: int  # since when the step waited for the group that was being answered
    began_us: int
    ended_us: int


@dataclass(frozen=True, slots=True)
class WaitingFor:
    """A query with queued rows: how many, when their answer is wanted, and its priority."""

    definition: int
    rows: int
    due_us: int
    priority: float


@dataclass(frozen=True, slots=True)
class OperatorRun:
    """A step of an expensive function that a worker took: rows of one block, for all who waited for it."""

    stream: str
    policy: str
    operator: str  # the function with its arguments
    commit: int  # that queued the rows
    block: int
    waiting: Sequence[WaitingFor]
    arrival_us: int  # when the rows were queued
    began_us: int
    ended_us: int
    rows: int  # that were computed
    left: int  # rows of the block that some query still takes
    bytes: int  # of the block before the step
    bytes_left: int
    seconds: float  # in the worker


@dataclass(frozen=True, slots=True)
class AnsweredQueue:
    """Rows of one commit that have come through their operators: how many each query has answered."""

    stream: str
    commit: int  # that queued the rows
    answered: Sequence[WaitingFor]
    arrival_us: int
    ended_us: int  # when sinks had been left the answers


Work = AnsweredGroup | ProcessedBatch | BackgroundWork | MemoryHold | OperatorRun | AnsweredQueue


class WorkObserver(Protocol):
    """Sees what streams have done, in the thread that did it."""

    def observe(self, work: Work) -> None:
        """Take note of a piece of work that is done."""
        ...


def _windows_by_query(spent: Spent) -> Iterator[tuple[int, int]]:
    """List the queries that a measurement is of, with their windows."""
    evaluated = spent.evaluated
    if evaluated is None or len(evaluated.firsts) == 2:
        yield spent.definition, spent.windows
    else:
        numbers = evaluated.definitions[evaluated.firsts[:-1]].tolist()
        yield from zip(numbers, np.diff(evaluated.firsts).tolist(), strict=True)
