"""Measures what a pipeline has done: seconds by step, batches and answers; tells observers of each piece of work."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.kernel.answering import Spent
from penstock.kernel.pending import Pending
from penstock.kernel.signing import Sent
from penstock.model.instants import Clock
from penstock.share.partial_schema import GROUPING, has_groupings
from penstock.stream.answered_groups import (
    AnsweredGroup,
    AnsweredQueue,
    BackgroundWork,
    GroupKind,
    MemoryHold,
    OperatorRun,
    ProcessedBatch,
    Work,
    WorkObserver,
)
from penstock.stream.batch_log import log_batch
from penstock.stream.evaluation_order import EvaluationOrder
from penstock.stream.step import Step

LOG: Final = logging.getLogger("penstock")
SHORTEST_US: Final = 1_000  # of a step that observers are told of: a stream that waits looks twenty times a second


@dataclass(slots=True)
class Metrics:
    """Seconds by step, and what they were spent on."""

    plan: float = 0.0
    job: float = 0.0
    taking: float = 0.0  # of the job's: rows were selected and stored for continuous queries
    ingest: float = 0.0
    commit: float = 0.0
    answer: float = 0.0
    held: float = 0.0  # of which batches waited, as more was to be answered than may wait
    log: float = 0.0  # of which answers were written to the log
    sink: float = 0.0  # of which answers were handed to the sinks
    batches: int = 0
    answers: int = 0
    taken: int = 0  # rows that continuous queries took, each once; they are answers too
    evaluations: int = 0  # windows computed, equal ones of several queries once
    shared: int = 0  # windows answered by another query's evaluation
    partials: int = 0  # that jobs sent to the driver
    cells: int = 0  # distinct ones among them, batch by batch
    signatures: int = 0
    bytes: int = 0
    rows_sent: int = 0  # rows that the driver aggregated, not Spark
    waiting: int = 0  # rows that the watermark has not passed, and windows of rows wait for
    waiting_bytes: int = 0  # of the files that hold them
    spread: int = 0  # partials that executors wrote to files of their own

    def add(self, sent: Sent) -> None:
        """Add what a batch's job sent."""
        self.partials, self.bytes = self.partials + sent.partials, self.bytes + sent.bytes
        self.cells, self.signatures = self.cells + sent.cells, self.signatures + sent.signatures
        self.rows_sent += sent.rows

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the seconds of a step."""
        began = time.perf_counter()
        yield
        setattr(self, step, getattr(self, step) + time.perf_counter() - began)


@dataclass(frozen=True, slots=True)
class Began:
    """When a piece of work began, and what was measured until then."""

    clock_us: int
    seconds: float
    processor_s: float
    job_s: float
    taking_s: float
    ingest_s: float
    commit_s: float
    log_s: float
    sink_s: float


class WindowBeliefs(NamedTuple):
    """What was expected of windows before they were answered, by definition."""

    seconds: Mapping[int, float]  # of a window
    selectivities: Mapping[int, float]  # the part of its windows that has rows, where that may not be all


NO_BELIEFS: Final = WindowBeliefs({}, {})


class Observing:
    """Tells observers of each piece of work of one stream when it is done."""

    def __init__(self, stream: str, clock: Clock, metrics: Metrics, observers: Sequence[WorkObserver]) -> None:
        """Begin with nothing done."""
        self.stream, self.clock, self.metrics, self.observers = stream, clock, metrics, observers
        self._holds = 0  # of the stream's memory, one within the other

    def begin(self) -> Began:
        """Note that a piece of work begins."""
        seconds = self.metrics
        steps = seconds.job, seconds.taking, seconds.ingest, seconds.commit, seconds.log, seconds.sink
        return Began(self.clock(), time.perf_counter(), time.thread_time(), *steps)

    def spent_on(self, due: Sequence[Pending], began: Began) -> list[Spent]:
        """Divide what the executors took to answer windows among their queries: windows cost the same."""
        windows = sum(len(one.ends) for one in due)
        each = (time.perf_counter() - began.seconds) / max(1, windows)
        return [Spent(one.definition.id, len(one.ends), each * len(one.ends)) for one in due]

    def believed(self, due: Sequence[Pending], order: EvaluationOrder) -> WindowBeliefs:
        """Return what windows are expected to take and to say, for observers, before it is known better."""
        if not self.observers:
            return NO_BELIEFS
        return WindowBeliefs(order.costs.expected(due), order.selectivities.believed(due))

    def group(
        self,
        began: Began,
        kind: GroupKind,
        logged: tuple[int | None, int],
        due: Sequence[Pending],
        order: EvaluationOrder,
        spent: Sequence[Spent],
        watermark_us: int | None,
        believed: WindowBeliefs = NO_BELIEFS,
    ) -> None:
        """Tell that windows, or revisions, were answered; ``logged``: number and rows of the answers in the log."""
        if not self.observers:
            return
        work = AnsweredGroup(
            self.stream,
            kind,
            logged[0],
            began.clock_us,
            self.clock(),
            began.seconds,
            time.perf_counter(),
            time.thread_time() - began.processor_s,
            self.metrics.log - began.log_s,
            self.metrics.sink - began.sink_s,
            logged[1],
            watermark_us,
            due,
            order.deadlines_us(due),
            [order.queries.of(one).item for one in due],
            spent,
            *believed,
        )
        self._tell(work)

    def batch(self, began: Began, step: Step, number: int, rows: int, watermark_us: int | None) -> None:
        """Tell, and log, that the rows of a batch are filed and committed."""
        computed, metrics = step.computed, self.metrics
        spent = metrics.job - began.job_s, metrics.ingest - began.ingest_s, metrics.commit - began.commit_s
        steps = dict(zip(("job", "partials", "commit"), spent, strict=True))
        log_batch(self.stream, number, rows, time.perf_counter() - began.seconds, steps, watermark_us)
        if not self.observers or computed is None or step.batch is None:
            return
        spent = spent[0] - (metrics.taking - began.taking_s), *spent[1:]  # rows are charged to those who take them
        work = ProcessedBatch(
            self.stream,
            number,
            step.batch,
            began.clock_us,
            self.clock(),
            began.seconds,
            time.perf_counter(),
            *spent,
            rows,
            computed.job.signing.sent.bytes,
            _by_grouping(computed.partials, len(computed.layout.members)),
            computed.layout,
            watermark_us,
            computed.job.signing.sent.rows,
        )
        self._tell(work)

    def operators(self, works: Iterable[OperatorRun | AnsweredQueue]) -> None:
        """Tell of steps of operators, or of queued rows that were answered."""
        for work in works:
            self._tell(work)

    @contextmanager
    def holding(self, wanted_us: int) -> Iterator[None]:
        """Tell of a step that has the stream's memory when it is over, unless it is part of another or very short."""
        began_us, self._holds = self.clock(), self._holds + 1
        try:
            yield
        finally:
            self._holds -= 1
            ended_us = self.clock()
            if not self._holds and ended_us - began_us >= SHORTEST_US:
                self._tell(MemoryHold(self.stream, wanted_us, began_us, ended_us))

    @contextmanager
    def background(self, name: str, definitions: Sequence[int] = ()) -> Iterator[None]:
        """Tell of work that no answer waits for when it is done; of what is done for all, name nobody."""
        began_us, began_s = self.clock(), time.perf_counter()
        yield
        work = BackgroundWork(self.stream, name, began_us, self.clock(), began_s, time.perf_counter(), definitions)
        self._tell(work)

    def _tell(self, work: Work) -> None:
        """Tell all observers; one that fails must not stop a stream, and is told nothing any more."""
        for observer in self.observers:
            try:
                observer.observe(work)
            except Exception as error:
                self.observers = [other for other in self.observers if other is not observer]
                about = {"event": "defect", "stream": self.stream}
                LOG.error(
                    f"{type(observer).__name__} failed and is told no more: {error!r}", extra=about, exc_info=True
                )


def _by_grouping(partials: pa.Table, count: int) -> list[int]:
    """Count the partials of each grouping."""
    if not has_groupings(partials):
        return [partials.num_rows]
    counts = np.bincount(partials[GROUPING].to_numpy(), minlength=count)
    return [int(number) for number in counts]
