"""Records what the streams of an engine do in a trace, which can be replayed under another policy.

What is observed waits in memory; a thread of its own makes rows of it and writes them about once a second. A trace that
cannot be written ends with a warning: no stream waits for it or fails with it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.kernel.answering import Spent
from penstock.kernel.pending import ItemName, Pending
from penstock.language.options import priority_of
from penstock.model.instants import wall_clock_us
from penstock.schedule.policy import Policy
from penstock.schedule.recorded import RecordedStep, RecordedWindows
from penstock.schedule.recorded_operators import ByQuery, RecordedOperatorStep, RecordedQueueAnswer
from penstock.store.batch_trace import BATCHES, batch_row
from penstock.store.operator_trace import OPERATORS, operator_step_row, queue_answer_row
from penstock.store.trace_files import TRACE_BYTES, TraceRow, TraceWriter, answered_row, step_row
from penstock.stream.answered_groups import (
    AnsweredGroup,
    AnsweredQueue,
    BackgroundWork,
    MemoryHold,
    OperatorRun,
    ProcessedBatch,
    WaitingFor,
    Work,
)
from penstock.stream.batch_recorder import BatchRecorder, Machine, NotedBatch

LOG: Final = logging.getLogger("penstock")
WRITTEN_EVERY_S: Final = 1.0
BATCHES_PART: Final = 8  # of the bytes of the trace: batches are few beside the windows that they make final
OPERATORS_PART: Final = 4  # the same of steps of operators
MOST_WAITING: Final = 10_000  # pieces of work, beyond which what comes is not recorded
MOST_ITEMS: Final = 50_000  # that are remembered by their numbers
Alike = tuple[
    tuple[int, float], int, int, int, int, int
]  # item and priority, windows, first end, slide, final, deadline

Noted = AnsweredGroup | MemoryHold | NotedBatch | OperatorRun | AnsweredQueue


class TraceRecorder:
    """Writes down which windows were answered when, how long it took, and which steps they had to wait for."""

    def __init__(
        self,
        folder: Path,
        policy: Callable[[], Policy],
        most_bytes: int = TRACE_BYTES,
        machine: Machine | None = None,
    ) -> None:
        """Record into a folder; the thread starts with the first piece of work."""
        self.policy, self.run = policy, wall_clock_us()
        self.batches = BatchRecorder(self.run, machine or Machine())
        self._writer = TraceWriter(folder, self.run, most_bytes)
        self._batch_writer = TraceWriter(folder, self.run, most_bytes // BATCHES_PART, BATCHES)
        self._operator_writer = TraceWriter(folder, self.run, most_bytes // OPERATORS_PART, OPERATORS)
        self._waiting: deque[tuple[Noted, str]] = deque()
        self._items: dict[tuple[str, tuple[object, ...], int], int] = {}
        self._of: dict[int, tuple[ItemName, tuple[int, float]]] = {}  # item, its number and priority of a query
        self._numbers = self._groups = 0  # given out so far
        self._came, self._closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self.failure: Exception | None = None  # what ended the trace

    def observe(self, work: Work) -> None:
        """Take note of a group of answers, of a step, or of a batch."""
        if isinstance(work, BackgroundWork) or self.failure or len(self._waiting) >= MOST_WAITING:
            return
        if isinstance(work, AnsweredGroup) and work.kind == "past":  # no policy puts these in order
            work = MemoryHold(work.stream, work.began_us, work.began_us, work.ended_us)
        noted = self.batches.note(work) if isinstance(work, ProcessedBatch) else work
        self._waiting.append((noted, self.policy().name))
        if not self._came.is_set():
            self._came.set()
            self._start()

    def close(self) -> None:
        """Write what waits, and end the thread; nothing is recorded after that."""
        self._closing.set()
        self._came.set()
        with self._starting:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _start(self) -> None:
        """Start the thread, once."""
        with self._starting:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._write_on, name="penstock-trace", daemon=True)
                self._thread.start()

    def _write_on(self) -> None:
        """Write what has come, about once a second, until the end."""
        try:
            while not self._closing.is_set():
                self._came.wait()
                self._closing.wait(WRITTEN_EVERY_S)
                self._came.clear()
                self._write()
            self._write()
            self._writer.close()
            self._batch_writer.close()
            self._operator_writer.close()
        except Exception as error:  # whatever it is: a trace may be lost, and streams go on
            self.failure = error
            self._waiting.clear()
            LOG.warning(f"no trace is recorded any more: {error}", extra={"event": "report"})

    def _write(self) -> None:
        """Write all that waits."""
        rows, batches, of_operators = list[TraceRow](), list[NotedBatch](), list[TraceRow]()
        while self._waiting:
            work, policy = self._waiting.popleft()
            match work:
                case NotedBatch():
                    batches.append(work)
                case OperatorRun() | AnsweredQueue():
                    of_operators.append(operator_row(self.run, work))
                case _:
                    rows += self._rows(work, policy)
        if rows:
            self._writer.append(rows)
        if of_operators:
            self._operator_writer.append(of_operators)
        if batches:
            memory: Mapping[str, float] = {}
            with suppress(RuntimeError):  # what is added up may change meanwhile
                memory = self.batches.machine.memory()
            self._batch_writer.append([batch_row(self.batches.row(one, memory)) for one in batches])

    def _rows(self, work: AnsweredGroup | MemoryHold, policy: str) -> Iterator[TraceRow]:
        """Make rows of a piece of work: one for all windows of an item that are alike, or one for a step."""
        if isinstance(work, MemoryHold):
            yield step_row(RecordedStep(self.run, work.stream, work.wanted_us, work.began_us, work.ended_us))
            return
        group, self._groups = self._groups, self._groups + 1
        alike: dict[Alike, list[Pending]] = {}
        for one, deadline_us, name in zip(work.due, work.deadlines_us, work.items, strict=True):
            known = self._of.get(one.definition.id)
            if known is None or known[0] is not name:
                known = self._learn(work.stream, one, name)
            ends = one.ends
            key = known[1], len(ends), ends.first_us, ends.slide_us, one.final_us, deadline_us
            alike.setdefault(key, []).append(one)
        whole = self.run, group, work.stream, policy, work.began_us, work.ended_us
        spent = _spent_on_a_window(work.spent)
        for ((item, priority), count, first_us, _, final_us, deadline_us), some in alike.items():
            queries = tuple(one.definition.id for one in some)  # whose windows cost the same
            answers, number = count * len(queries), queries[0]
            known_s = work.believed.get(number, 0.0) * answers, spent.get(number, 0.0) * answers
            says = sum(work.selectivities.get(query, 1.0) for query in queries) / len(queries)
            times = final_us, final_us + deadline_us, priority, *known_s, says
            yield answered_row(RecordedWindows(*whole, item, queries, count, first_us, some[0].ends.last_us, *times))

    def _learn(self, stream: str, one: Pending, name: ItemName) -> tuple[ItemName, tuple[int, float]]:
        """Note the item that a query's windows belong to, the number of it, and the query's priority."""
        if len(self._of) >= MOST_ITEMS:
            self._of.clear()
        item = self._item(stream, name), float(priority_of(one.definition.query))
        known = self._of[one.definition.id] = name, item
        return known

    def _item(self, stream: str, name: ItemName) -> int:
        """Return the number of an item, whatever the slide; of those that are long gone, a later one has another."""
        key = stream, name.unit, name.shape
        number = self._items.get(key)
        if number is None:
            if len(self._items) >= MOST_ITEMS:
                self._items.clear()
            number = self._items[key] = self._numbers
            self._numbers += 1
        return number


def _spent_on_a_window(spent: Sequence[Spent]) -> dict[int, float]:
    """Return what a window of each query took: windows of one lane and shape cost the same."""
    found: dict[int, float] = {}
    for one in spent:
        several = one.evaluated
        numbers = [one.definition] if several is None else several.definitions[several.firsts[:-1]].tolist()
        found.update(dict.fromkeys(numbers, one.seconds / max(1, one.windows)))
    return found


def operator_row(run: int, work: OperatorRun | AnsweredQueue) -> TraceRow:
    """Make a row of a step of an operator, or of queued rows that were answered."""
    if isinstance(work, AnsweredQueue):
        whose = run, work.stream, work.commit, work.arrival_us, work.ended_us
        return queue_answer_row(RecordedQueueAnswer(*whose, *_by_query(work.answered)))
    queries, wanted, dues_us, priorities = _by_query(work.waiting)
    step = RecordedOperatorStep(
        run=run,
        stream=work.stream,
        policy=work.policy,
        commit=work.commit,
        since_us=work.arrival_us,
        began_us=work.began_us,
        ended_us=work.ended_us,
        queries=queries,
        wanted=wanted,
        dues_us=dues_us,
        priorities=priorities,
        block=work.block,
        operator=work.operator,
        rows=work.rows,
        left=work.left,
        bytes=work.bytes,
        bytes_left=work.bytes_left,
        seconds=work.seconds,
    )
    return operator_step_row(step)


def _by_query(some: Sequence[WaitingFor]) -> ByQuery:
    """Put what is told of each query beside one another."""
    numbers, rows = tuple(one.definition for one in some), tuple(one.rows for one in some)
    return numbers, rows, tuple(one.due_us for one in some), tuple(one.priority for one in some)
