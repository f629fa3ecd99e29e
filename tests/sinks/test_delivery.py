"""Answers reach every sink under their query's name, once, also a sink that was not there."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import SinkError
from penstock.sinks.delivery import Delivery, for_sinks
from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.memory import MemorySink
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Progressing, Sink, SinkWriter
from penstock.sinks.terminal import TerminalSink, line_of
from penstock.store.answers import DEFINITION, MemoryAnswerLog
from penstock.store.folder import StateFolder
from penstock.testing import TestBed
from tests.cases import cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = {1: "one", 2: "two"}
VERSIONS = {1: 1, 2: 3}


def table(*rows: tuple[int, int]) -> pa.Table:
    return pa.table({DEFINITION: pa.array([d for d, _ in rows], pa.int64()), "n": [n for _, n in rows]})


def lines(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_queries_are_named(tmp_path: Path) -> None:
    delivery = Delivery(
        "s", [JsonLinesSink(tmp_path)], MemoryAnswerLog(), None, NAMES.__getitem__, VERSIONS.__getitem__
    )
    delivery.deliver(0, [table((2, 5), (1, 6), (2, 7))])
    delivery.wait()
    assert [(line["query_name"], line["n"]) for line in lines(tmp_path)] == [("two", 5), ("one", 6), ("two", 7)]


def test_a_sink_that_lags_catches_up_and_the_others_do_not_hear_twice(tmp_path: Path) -> None:
    answers, state = MemoryAnswerLog(), StateFolder(tmp_path / "state")
    first: list[Sink] = [JsonLinesSink(tmp_path / "a")]
    delivery = Delivery("s", first, answers, state, NAMES.__getitem__, VERSIONS.__getitem__)
    for number in range(3):
        answers.append(number, [table((1, number))])
        delivery.deliver(number, [table((1, number))])
    delivery.abandon()
    answers.append(3, [table((2, 3))])  # answered, and the process died before it was delivered
    again = Delivery(
        "s", [*first, ParquetSink(tmp_path / "b")], answers, state, NAMES.__getitem__, VERSIONS.__getitem__
    )
    again.roll()
    state.release()
    assert [line["n"] for line in lines(tmp_path / "a")] == [0, 1, 2, 3]
    (one,) = (tmp_path / "b" / "one").glob("*.parquet")
    (two,) = (tmp_path / "b" / "two").glob("*.parquet")
    assert (pq.read_table(one)["n"].to_pylist(), pq.read_table(two)["n"].to_pylist()) == ([0, 1, 2], [3])
    assert pq.read_table(one)["query_name"].to_pylist() == ["one"] * 3


# -- sinks that fail ---------------------------------------------------------------------------------------------------


class Faulty:
    """Stands before a sink and raises when told to, before, after or instead of what was asked."""

    kind = "faulty"

    def __init__(self, inner: Sink) -> None:
        self.inner = inner
        self.fails: list[str] = []  # "open", "before", "after" or "roll"; each once
        self.error: Exception = OSError(28, "No space left on device")

    def trip(self, where: str) -> None:
        if where in self.fails:
            self.fails.remove(where)
            raise self.error

    def open(self, stream: str, memory: Progressing) -> SinkWriter:
        self.trip("open")
        return FaultyWriter(self, self.inner.open(stream, memory))


class FaultyWriter:
    def __init__(self, sink: Faulty, inner: SinkWriter) -> None:
        self.sink, self.inner = sink, inner

    @property
    def delivered(self) -> int:
        return self.inner.delivered

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        self.sink.trip("before")
        self.inner.deliver(number, tables)
        self.sink.trip("after")

    def roll(self) -> None:
        self.sink.trip("roll")
        self.inner.roll()


class Clock:
    def __init__(self) -> None:
        self.seconds = 0

    def __call__(self) -> int:
        return self.seconds * 1_000_000


class Line:
    """A stream's answers on their way: appended to the log, then delivered."""

    def __init__(self, *sinks: Sink, state: StateFolder | None = None, log: MemoryAnswerLog | None = None) -> None:
        self.clock, self.log = Clock(), log or MemoryAnswerLog()
        self.delivery = Delivery("s", sinks, self.log, state, NAMES.__getitem__, VERSIONS.__getitem__, self.clock)
        self.number = (self.log.last() or 0) + 1 if log else 0

    def answer(self) -> None:
        self.log.append(self.number, [table((1, self.number))])
        self.delivery.deliver(self.number, [table((1, self.number))])
        self.number += 1
        self.delivery.wait()


def numbers(folder: Path) -> list[int]:
    return [line["n"] for line in lines(folder)]


def test_a_sink_that_fails_holds_up_no_other_and_catches_up_in_order(tmp_path: Path) -> None:
    bad, good = Faulty(JsonLinesSink(tmp_path / "bad")), JsonLinesSink(tmp_path / "good")
    line = Line(bad, good)
    line.answer()
    bad.fails = ["before"]
    for _ in range(3):
        line.answer()
    assert (numbers(tmp_path / "bad"), numbers(tmp_path / "good")) == ([0], [0, 1, 2, 3])
    failing = line.delivery.failing["faulty"]
    assert (failing.attempts, failing.since_us, failing.next_try_us) == (1, 0, 1_000_000)
    assert "No space left on device" in failing.error.what
    assert line.delivery.taken() == 0
    line.clock.seconds = 1
    line.answer()
    assert numbers(tmp_path / "bad") == numbers(tmp_path / "good") == [0, 1, 2, 3, 4]
    assert (line.delivery.failing, line.delivery.taken()) == ({}, 4)


def test_attempts_come_at_growing_pauses_up_to_a_minute(tmp_path: Path) -> None:
    bad = Faulty(JsonLinesSink(tmp_path))
    bad.fails, bad.error = ["open"] * 9, RuntimeError("no")
    line, tried = Line(bad), []
    line.answer()
    for line.clock.seconds in range(400):
        before = line.delivery.failing.get("faulty")
        line.delivery.retry()
        line.delivery.wait()
        if line.delivery.failing.get("faulty") != before:
            tried.append(line.clock.seconds)
    assert tried == [1, 3, 7, 15, 31, 63, 123, 183, 243]
    assert numbers(tmp_path) == [0]


def test_the_end_of_a_run_tries_once_more_and_then_says_where_the_answers_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad, state = Faulty(JsonLinesSink(tmp_path / "out")), StateFolder(tmp_path / "state")
    line = Line(bad, state=state)
    bad.fails, bad.error = ["before"] * 2, ValueError("wrong weather")
    line.answer()
    with pytest.raises(SinkError, match='sink faulty lacks answers of stream "s"') as raised:
        line.delivery.roll()
    assert "sink faulty failed: ValueError: wrong weather" in raised.value.what
    assert "kept in the state folder" in (raised.value.hint or "")
    line.delivery.roll()  # the sink has been mended
    assert numbers(tmp_path / "out") == [0]
    state.release()
    records = [r for r in caplog.records if r.name == "penstock"]
    assert [r.levelname for r in records] == ["ERROR", "ERROR", "WARNING"]
    assert {(r.__dict__["sink"], r.__dict__["stream"]) for r in records} == {("faulty", "s")}
    bad.fails = ["roll"] * 2
    with pytest.raises(SinkError) as raised:
        Line(bad).delivery.roll()
    assert "in memory until the engine ends" in (raised.value.hint or "")


def test_a_line_cut_in_the_middle_is_written_again_whole(tmp_path: Path) -> None:
    bad = Faulty(JsonLinesSink(tmp_path))
    line = Line(bad)
    line.answer()
    (file,) = tmp_path.glob("*.jsonl")
    with file.open("a") as torn:
        torn.write('{"query_na')  # as a full disk leaves it
    bad.fails = ["before"]
    line.answer()
    line.delivery.roll()
    assert numbers(tmp_path) == [0, 1]


faults = st.lists(st.tuples(st.sampled_from(["open", "before", "after", "roll", "restart", ""]), st.integers(0, 5)))


@given(faults=faults)
@settings(max_examples=cases(60))
def test_whatever_fails_each_answer_is_in_the_sink_once(
    tmp_path_factory: pytest.TempPathFactory, faults: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("faults")
    state, log = StateFolder(folder / "state"), MemoryAnswerLog()
    sinks = [Faulty(ParquetSink(folder / "p", roll_bytes=30)), Faulty(JsonLinesSink(folder / "j", roll_bytes=60))]
    line = Line(*sinks, state=state, log=log)
    for where, pause in faults:
        for sink in sinks:
            sink.fails = [where] * pause
        if where == "restart":
            line.delivery.abandon()  # a process that has ended writes no more
            line = Line(*sinks, state=state, log=log)
        line.clock.seconds += pause
        line.answer()
    for sink in sinks:
        sink.fails = []
    line.delivery.roll()
    state.release()
    expected = list(range(1, line.number))
    written = [n for file in sorted((folder / "p").rglob("*.parquet")) for n in pq.read_table(file)["n"].to_pylist()]
    assert (written, numbers(folder / "j")) == (expected, expected)


def test_sinks_that_change_places_or_folders_know_what_they_have(tmp_path: Path) -> None:
    state, log = StateFolder(tmp_path / "state"), MemoryAnswerLog()
    a, b = JsonLinesSink(tmp_path / "a"), JsonLinesSink(tmp_path / "b")
    Line(a, state=state, log=log).answer()
    Line(b, a, state=state, log=log).answer()
    assert numbers(tmp_path / "a") == numbers(tmp_path / "b") == [1, 2]
    (tmp_path / "b").rename(tmp_path / "c")  # its record is the second one, and it is the second sink
    Line(a, JsonLinesSink(tmp_path / "c"), state=state, log=log).answer()
    state.release()
    assert numbers(tmp_path / "a") == numbers(tmp_path / "c") == [1, 2, 3]
    assert sorted(p.name for p in state.sinks.iterdir()) == ["s-0.json", "s-1.json"]


# -- what sinks get ----------------------------------------------------------------------------------------------------


def revised() -> pa.Table:
    return pa.table(
        {
            DEFINITION: pa.array([1, 1], pa.int64()),
            "window_start": pa.array([0, 0], pa.timestamp("us", "UTC")),
            "window_end": pa.array([60_000_000] * 2, pa.timestamp("us", "UTC")),
            "n": [3, None],
            "#k0": ["x", "y"],
            "#revision": pa.array([1, 2], pa.int32()),
            "#op": ["revise", "retract"],
        }
    )


def test_revisions_are_shown_behind_the_window_and_inner_columns_are_not() -> None:
    found = for_sinks(revised(), NAMES.__getitem__, VERSIONS.__getitem__)
    assert found.column_names == ["query_name", "query_version", "window_start", "window_end", "revision", "op", "n"]
    assert found["op"].to_pylist() == ["revise", "retract"]


def test_a_terminal_shows_a_line_an_answer() -> None:
    out = io.StringIO()
    line = Line(TerminalSink(out))
    line.answer()
    line.delivery.deliver(1, [revised()])
    line.delivery.wait()
    minute = "1970-01-01T00:00:00.000000Z – 1970-01-01T00:01:00.000000Z"
    assert out.getvalue().splitlines() == [
        "one   –   n=0",
        f"one  {minute}  revise 1  n=3",
        f"one  {minute}  retract 2  n=null",
    ]
    row = {"query_name": "q", "a b": "two words", "c": "\x1b[2J", "d": "x", "e": [1.5]}
    assert line_of(row) == 'q   –   a b="two words" c="\\u001b[2J" d=x e=[1.5]'


def test_memory_is_rebuilt_from_the_log(tmp_path: Path) -> None:
    state, log = StateFolder(tmp_path / "state"), MemoryAnswerLog()
    for _ in range(2):
        sink = MemorySink()
        line = Line(sink, state=state, log=log)
        line.answer()
    state.release()
    assert [n for found in sink.answers("one") for n in found["n"].to_pylist()] == [1, 2]
    assert (sink.answers("two"), line.delivery.taken()) == ([], 2)


# -- with an engine ----------------------------------------------------------------------------------------------------


def open_bed(spark: SparkSession, folder: Path, *sinks: Sink) -> TestBed:
    bed = TestBed(spark, state=folder / "state", sinks=sinks)
    bed.stream("s", "ts TIMESTAMP, k STRING, x DECIMAL(12, 2)")
    return bed


def half_a_minute(number: int) -> list[tuple[int, str, int]]:
    return [(30 * number + i, f"é{i % 7}", i) for i in range(30)]


def test_executors_write_large_answers_that_queries_share(spark: SparkSession, tmp_path: Path) -> None:
    with open_bed(spark, tmp_path, ParquetSink(tmp_path / "out", layout="columns", large_rows=1)) as bed:
        for name in ("by", "same"):
            bed.query(name, "SELECT k, sum(x) AS total, max(ts) AS last FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k")
        for number in range(2):
            bed.feed("s", half_a_minute(number))
            bed.engine.stream("s").delivery.roll()
        bed.flush()
        expected = bed.answers("by")
    files = sorted((tmp_path / "out").iterdir())
    parts = spark.sparkContext.defaultParallelism
    assert len(files) == 3 * parts  # one list of columns, three times rolled
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.columns == ["query_name", "query_version", "window_start", "window_end", "k", "total", "last"]
    for name in ("by", "same"):
        mine = (
            found.where(f"query_name = '{name}'")
            .orderBy("window_end", "k")
            .drop("query_name", "query_version")
            .toArrow()
        )
        assert mine.to_pylist() == expected


def test_executors_write_large_answers_into_the_folder_of_their_query(spark: SparkSession, tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out", layout="query/day", large_rows=5)
    with open_bed(spark, tmp_path, sink) as bed:
        bed.query("by", "SELECT k, sum(x) AS total FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k")
        bed.query("few", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        bed.feed("s", half_a_minute(0))
        bed.flush()
        expected = {name: bed.answers(name) for name in ("by", "few")}
    assert len(list(sink.folder_of("by").rglob("*.parquet"))) == spark.sparkContext.defaultParallelism
    for name, answers in expected.items():
        read = spark.read.parquet(str(sink.folder_of(name))).orderBy(*list(answers[0])[1:])
        assert read.drop("query_name", "query_version", "day").toArrow().to_pylist() == answers


def test_a_restart_writes_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        sinks = ParquetSink(tmp_path / "a", large_rows=20), JsonLinesSink(tmp_path / "b", roll_bytes=1_000)
        with open_bed(spark, tmp_path, *sinks) as bed:
            bed.query("n", "SELECT k, count(*) AS n FROM s [RANGE 5 s SLIDE 5 s] GROUP BY k")
            bed.feed("s", half_a_minute(number))
            expected = bed.answers("n")
    written = [row for file in (tmp_path / "a" / "n").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    assert sorted((r["window_end"], r["k"]) for r in written) == [(r["window_end"], r["k"]) for r in expected]
    assert [(line["k"], line["n"]) for line in lines(tmp_path / "b")] == [(r["k"], r["n"]) for r in expected]


def test_a_stream_answers_on_while_a_sink_fails_and_the_next_start_fills_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "bad").touch()  # a file where a folder should be
    sinks = JsonLinesSink(tmp_path / "bad"), JsonLinesSink(tmp_path / "good")
    bed = open_bed(spark, tmp_path, *sinks)
    bed.query("n", "SELECT k, count(*) AS n FROM s [RANGE 5 s SLIDE 5 s] GROUP BY k")
    bed.feed("s", half_a_minute(0))
    expected = [(r["k"], r["n"]) for r in bed.answers("n")]
    assert [(line["k"], line["n"]) for line in lines(tmp_path / "good")] == expected
    assert list(bed.engine.stream("s").delivery.failing) == [f"jsonl {tmp_path / 'bad'}"]
    with pytest.raises(SinkError, match=f"sink jsonl {tmp_path / 'bad'} lacks answers"):
        bed.engine.close()
    (tmp_path / "bad").unlink()
    with open_bed(spark, tmp_path, *sinks) as bed:
        bed.engine.stream("s")
    for folder in ("bad", "good"):
        assert [(line["k"], line["n"]) for line in lines(tmp_path / folder)] == expected
