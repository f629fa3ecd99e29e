"""Answers reach every sink under their query's name, once, also a sink that was not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.sinks.delivery import Delivery
from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Sink
from penstock.store.answers import DEFINITION, MemoryAnswerLog
from penstock.store.folder import StateFolder
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = {1: "one", 2: "two"}


def table(*rows: tuple[int, int]) -> pa.Table:
    return pa.table({DEFINITION: pa.array([d for d, _ in rows], pa.int64()), "n": [n for _, n in rows]})


def lines(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_queries_are_named(tmp_path: Path) -> None:
    delivery = Delivery("s", [JsonLinesSink(tmp_path)], MemoryAnswerLog(), None, NAMES.__getitem__)
    delivery.deliver(0, [table((2, 5), (1, 6), (2, 7))])
    assert [(line["query_name"], line["n"]) for line in lines(tmp_path)] == [("two", 5), ("one", 6), ("two", 7)]


def test_a_sink_that_lags_catches_up_and_the_others_do_not_hear_twice(tmp_path: Path) -> None:
    answers, state = MemoryAnswerLog(), StateFolder(tmp_path / "state")
    first: list[Sink] = [JsonLinesSink(tmp_path / "a")]
    delivery = Delivery("s", first, answers, state, NAMES.__getitem__)
    for number in range(3):
        answers.append(number, [table((1, number))])
        delivery.deliver(number, [table((1, number))])
    answers.append(3, [table((2, 3))])  # answered, and the process died before it was delivered
    again = Delivery("s", [*first, ParquetSink(tmp_path / "b")], answers, state, NAMES.__getitem__)
    again.roll()
    state.release()
    assert [line["n"] for line in lines(tmp_path / "a")] == [0, 1, 2, 3]
    (file,) = (tmp_path / "b").glob("*.parquet")
    assert pq.read_table(file)["n"].to_pylist() == [0, 1, 2, 3]
    assert pq.read_table(file)["query_name"].to_pylist() == ["one", "one", "one", "two"]


def open_bed(spark: SparkSession, folder: Path, *sinks: Sink) -> TestBed:
    bed = TestBed(spark, state=folder / "state", sinks=sinks)
    bed.stream("s", "ts TIMESTAMP, k STRING, x DECIMAL(12, 2)")
    return bed


def half_a_minute(number: int) -> list[tuple[int, str, int]]:
    return [(30 * number + i, f"é{i % 7}", i) for i in range(30)]


def test_executors_write_large_answers(spark: SparkSession, tmp_path: Path) -> None:
    with open_bed(spark, tmp_path, ParquetSink(tmp_path / "out", large_rows=1)) as bed:
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
    assert found.columns == ["query_name", "window_start", "window_end", "k", "total", "last"]
    for name in ("by", "same"):
        mine = found.where(f"query_name = '{name}'").orderBy("window_end", "k").drop("query_name").toArrow()
        assert mine.to_pylist() == expected


def test_a_restart_writes_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        sinks = ParquetSink(tmp_path / "a", large_rows=20), JsonLinesSink(tmp_path / "b", roll_bytes=1_000)
        with open_bed(spark, tmp_path, *sinks) as bed:
            bed.query("n", "SELECT k, count(*) AS n FROM s [RANGE 5 s SLIDE 5 s] GROUP BY k")
            bed.feed("s", half_a_minute(number))
            expected = bed.answers("n")
    written = [row for file in (tmp_path / "a").iterdir() for row in pq.read_table(file).to_pylist()]
    assert sorted((r["window_end"], r["k"]) for r in written) == [(r["window_end"], r["k"]) for r in expected]
    assert [(line["k"], line["n"]) for line in lines(tmp_path / "b")] == [(r["k"], r["n"]) for r in expected]
