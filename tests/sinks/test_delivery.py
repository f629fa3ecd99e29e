"""Answers reach every sink under their query's name, once, also a sink that was not there."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine import Engine
from penstock.sinks.delivery import Delivery
from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Sink
from penstock.store.answers import DEFINITION, MemoryAnswerLog
from penstock.store.folder import StateFolder

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


SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("x", pa.decimal128(12, 2))])
START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def feed(engine: Engine, number: int) -> None:
    rows = [{"ts": START + timedelta(seconds=30 * number + i), "k": f"é{i % 7}", "x": i} for i in range(30)]
    engine.stream("s").process(engine.session.createDataFrame(pa.Table.from_pylist(rows, SCHEMA)), number)


def test_executors_write_large_answers(spark: SparkSession, tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out", large_rows=1)
    with Engine(tmp_path / "state", spark=spark, sinks=[sink]) as engine:
        engine.create_stream("s", spark.createDataFrame(SCHEMA.empty_table()), time="ts")
        for name in ("by", "same"):
            text = "SELECT k, sum(x) AS total, max(ts) AS last FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k"
            engine.create_query(name, text)
        for number in range(2):
            feed(engine, number)
            engine.stream("s").delivery.roll()
        engine.stream("s").flush()
        expected = engine.results("by")
    files = sorted((tmp_path / "out").iterdir())
    parts = spark.sparkContext.defaultParallelism
    assert len(files) == 3 * parts  # one list of columns, three times rolled
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.columns == ["query_name", "window_start", "window_end", "k", "total", "last"]
    for name in ("by", "same"):
        mine = found.where(f"query_name = '{name}'").orderBy("window_end", "k").drop("query_name").toArrow()
        assert mine.to_pylist() == expected.to_pylist()


def test_a_restart_writes_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        sinks: list[Sink] = [
            ParquetSink(tmp_path / "a", large_rows=20),
            JsonLinesSink(tmp_path / "b", roll_bytes=1_000),
        ]
        with Engine(tmp_path / "state", spark=spark, sinks=sinks) as engine:
            engine.create_stream("s", spark.createDataFrame(SCHEMA.empty_table()), time="ts")
            engine.create_query("n", "SELECT k, count(*) AS n FROM s [RANGE 5 s SLIDE 5 s] GROUP BY k")
            feed(engine, number)
            expected = engine.results("n").to_pylist()
    written = [row for file in (tmp_path / "a").iterdir() for row in pq.read_table(file).to_pylist()]
    assert sorted((r["window_end"], r["k"]) for r in written) == [(r["window_end"], r["k"]) for r in expected]
    assert [(line["k"], line["n"]) for line in lines(tmp_path / "b")] == [(r["k"], r["n"]) for r in expected]
