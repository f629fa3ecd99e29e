"""A function that is a sink is called with each batch once, and again only with the same batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import SinkError
from penstock.sinks.protocol import names_of
from penstock.testing import TestBed
from tests.sinks.remembering import Died, Remembering, answers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_batch_that_was_not_recorded_comes_again_with_its_key() -> None:
    seen: list[tuple[str, int]] = []

    @ps.sink
    def note(batch: ps.SinkBatch) -> None:
        seen.append((batch.key, batch.number))

    memory = Remembering()
    writer = note.open("s", memory)
    writer.deliver(0, [answers(1)])
    memory.dies = True
    with pytest.raises(Died):
        writer.deliver(1, [answers(2)])
    writer = note.open("s", memory)
    for number in (0, 1, 2):
        writer.deliver(number, [answers(number)])
    assert seen == [("0f/s/0", 0), ("0f/s/1", 1), ("0f/s/1", 1), ("0f/s/2", 2)]
    assert writer.delivered == 2


def test_a_batch_that_raises_is_not_taken() -> None:
    @ps.sink(name="alarms")
    def fail(batch: ps.SinkBatch) -> None:
        raise ConnectionError("nobody listens")

    writer = fail.open("s", Remembering())
    with pytest.raises(ConnectionError):
        writer.deliver(0, [answers(1)])
    assert writer.delivered == -1
    writer.deliver(0, [])  # nothing to tell
    assert writer.delivered == 0
    assert names_of([fail, fail]) == ["function alarms", "function alarms #2"]
    with pytest.raises(SinkError, match="made of a function"):
        ps.sink(3)  # type: ignore[call-overload]


def test_queries_come_one_by_one() -> None:
    batch = ps.SinkBatch("s", "0f", 0, [pa.concat_tables([answers(1), answers(2, query="p"), answers(3)])])
    assert {name: table["n"].to_pylist() for name, table in batch.queries()} == {"q": [1, 3], "p": [2]}


def test_a_query_that_answers_in_two_versions_comes_once_with_the_columns_of_both() -> None:
    former, edited = answers(1, 2), answers(3, column="m").append_column("n", pa.array([0.5]))
    other = answers(4, query="p")
    batch = ps.SinkBatch("s", "0f", 0, [pa.concat_tables([former, other]), edited])
    found = [(name, table.to_pylist()) for name, table in batch.queries()]
    mine: list[dict[str, object]] = [{"n": 1.0, "m": None}, {"n": 2.0, "m": None}, {"n": 0.5, "m": 3}]
    assert found == [("p", [{"query_name": "p", "n": 4}]), ("q", [{"query_name": "q", **row} for row in mine])]
    text = edited.drop_columns(["n"]).append_column("n", pa.array(["x"]))
    ((_, table),) = ps.SinkBatch("s", "0f", 0, [former, text]).queries()
    assert table["n"].to_pylist() == ["1", "2", "x"]


def test_rows_of_continuous_queries_come_for_each_query(spark: SparkSession, tmp_path: Path) -> None:
    rows: dict[str, list[int]] = {}

    @ps.sink
    def collect(batch: ps.SinkBatch) -> None:
        for name, table in batch.queries():
            rows.setdefault(name, []).extend(table["v"].to_pylist())

    with TestBed(spark, state=tmp_path / "state", sinks=[collect]) as bed:
        bed.stream("s", "ts TIMESTAMP, v INT")
        bed.query("small", "SELECT v FROM s WHERE v < 3")
        bed.query("even", "SELECT v, v * 2 AS w FROM s WHERE v % 2 = 0")
        bed.query("n", "SELECT count(*) AS v FROM s [RANGE 2 s SLIDE 2 s]")
        bed.feed("s", [{"ts": second, "v": second} for second in range(6)])
        bed.flush()
    assert rows == {"small": [0, 1, 2], "even": [0, 2, 4], "n": [2, 2, 2]}
