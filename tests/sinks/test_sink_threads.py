"""A slow sink keeps neither its stream nor another sink waiting, until too many answers wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import StateError
from penstock.sinks import sink_thread
from penstock.sinks.delivery import Delivery
from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.protocol import Progressing, Sink, SinkWriter
from penstock.store.answers import DEFINITION, MemoryAnswerLog
from tests.cases import cases

PATIENCE_S = 60.0  # for another thread: never reached unless something is wrong


class Gate:
    """A sink that takes answers only while it is open, and remembers which it took."""

    kind = "gate"

    def __init__(self) -> None:
        self.open_gate = threading.Event()
        self.asked = threading.Event()  # somebody stands before it
        self.taken: list[tuple[int, list[int]]] = []
        self.raises: BaseException | None = None

    def open(self, stream: str, memory: Progressing) -> SinkWriter:
        return GateWriter(self)


class GateWriter:
    def __init__(self, sink: Gate) -> None:
        self.sink = sink

    @property
    def delivered(self) -> int:
        return self.sink.taken[-1][0] if self.sink.taken else -1

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        self.sink.asked.set()
        assert self.sink.open_gate.wait(PATIENCE_S)
        if self.sink.raises is not None:
            raise self.sink.raises
        self.sink.taken.append((number, [n for table in tables for n in table["n"].to_pylist()]))

    def roll(self) -> None:
        pass


class Line:
    """A stream's answers on their way: appended to the log, then left for the sinks."""

    def __init__(self, *sinks: Sink, most_backlog: int = 1_000_000) -> None:
        self.log, self.number = MemoryAnswerLog(), 0
        self.delivery = Delivery("s", sinks, self.log, None, str, int, most_backlog=most_backlog)

    def answer(self, rows: int = 1) -> None:
        numbers = pa.array(range(self.number * 1_000, self.number * 1_000 + rows), pa.int64())
        tables = [pa.table({DEFINITION: pa.array([1] * rows, pa.int64()), "n": numbers})]
        self.log.append(self.number, tables)
        self.number += 1
        self.delivery.deliver(self.number - 1, tables)

    def expected(self) -> list[tuple[int, list[int]]]:
        return [(number, tables[0]["n"].to_pylist()) for number, tables in self.log.batches(-1)]


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open_gate.set()


def eventually(holds: Callable[[], bool]) -> bool:
    """Wait for another thread."""
    waiting = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if holds():
            return True
        waiting.wait(0.01)
    return False


def test_a_stream_and_another_sink_go_on_while_one_sink_is_slow(gate: Gate, tmp_path: Path) -> None:
    line = Line(gate, JsonLinesSink(tmp_path))
    for _ in range(20):
        line.answer(3)
    fast = line.delivery.threads[1]
    fast.wait()
    assert len((next(tmp_path.glob("*.jsonl"))).read_text().splitlines()) == 60
    assert (gate.taken, line.delivery.threads[0].backlog) == ([], 60)
    gate.open_gate.set()
    line.delivery.roll()
    assert gate.taken == line.expected()
    assert [(t.backlog, t.holds) for t in line.delivery.threads] == [(0, 0), (0, 0)]


def test_beyond_the_backlog_the_stream_waits_and_that_is_counted(gate: Gate) -> None:
    line, done = Line(gate, most_backlog=5), threading.Event()

    def stream() -> None:
        for _ in range(4):
            line.answer(2)
        done.set()

    threading.Thread(target=stream, daemon=True).start()
    (thread,) = line.delivery.threads
    assert eventually(lambda: thread.holds == 1)
    assert (line.number, thread.backlog, done.is_set()) == (3, 6, False)
    gate.open_gate.set()
    assert done.wait(PATIENCE_S)
    line.delivery.wait()
    assert gate.taken == line.expected()
    assert thread.held_seconds > 0


def test_a_stream_that_is_to_stop_does_not_wait_for_a_sink(gate: Gate) -> None:
    line, done = Line(gate, most_backlog=1), threading.Event()

    def stream() -> None:
        for _ in range(5):
            line.answer(2)
        done.set()

    threading.Thread(target=stream, daemon=True).start()
    assert eventually(lambda: line.delivery.threads[0].holds == 1)
    line.delivery.let_through()
    assert done.wait(PATIENCE_S)
    gate.open_gate.set()
    line.delivery.roll()
    assert gate.taken == line.expected()


def test_answers_beyond_a_bound_of_memory_come_from_the_log(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_thread, "HELD_BYTES", 100)
    line = Line(gate)
    for _ in range(7):
        line.answer(3)  # 48 bytes
    (thread,) = line.delivery.threads
    assert (thread.held_bytes, thread.backlog) == (96, 21)
    gate.open_gate.set()
    line.delivery.wait()
    assert gate.taken == line.expected()
    assert (thread.held_bytes, thread.backlog) == (0, 0)


def test_what_ends_the_thread_is_told_to_the_stream_and_nothing_is_lost(gate: Gate) -> None:
    line = Line(gate)
    gate.raises = StateError("the folder is full")
    line.answer()
    assert gate.asked.wait(PATIENCE_S)
    gate.open_gate.set()
    with pytest.raises(StateError, match="the folder is full"):
        line.delivery.wait()
    gate.raises = None
    line.answer()
    line.delivery.roll()
    assert gate.taken == line.expected()


def test_answers_whose_query_could_not_be_named_are_not_passed_over() -> None:
    gate, unknown = Gate(), [KeyError(1)]

    def name_of(definition: int) -> str:
        if unknown:
            raise unknown.pop()
        return str(definition)

    gate.open_gate.set()
    line = Line(gate)
    line.delivery.wait()
    line.delivery.name_of = name_of
    line.answer()
    with pytest.raises(KeyError):
        line.delivery.wait()
    line.answer()
    line.delivery.roll()
    assert gate.taken == line.expected()


def test_an_abandoned_sink_ends_with_what_it_does_and_takes_nothing_more(gate: Gate) -> None:
    line = Line(gate)
    for _ in range(3):
        line.answer()
    assert gate.asked.wait(PATIENCE_S)
    threading.Timer(0.05, gate.open_gate.set).start()
    line.delivery.abandon()
    assert gate.taken == line.expected()[:1]
    line.answer()
    line.delivery.wait()
    assert gate.taken == line.expected()[:1]


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), max_size=30), st.integers(1, 8))
@settings(max_examples=cases(50), deadline=None)
def test_however_threads_run_each_sink_gets_each_commit_once_and_in_order(
    steps: list[tuple[int, bool, bool]], most_backlog: int
) -> None:
    sinks = Gate(), Gate()
    for sink in sinks:
        sink.open_gate.set()
    line = Line(*sinks, most_backlog=most_backlog)
    for rows, fails, waits in steps:
        sinks[0].raises = OSError("no") if fails else None
        line.answer(rows)
        if waits:
            line.delivery.wait()
        line.delivery.retry()
    sinks[0].raises = None
    line.delivery.roll()
    for sink in sinks:
        assert sink.taken == line.expected()
    line.delivery.abandon()
