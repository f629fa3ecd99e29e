"""An engine that dies around any durable write of rows that continuous queries take answers each row once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Sink
from penstock.store import faults
from penstock.store.faults import MOMENTS
from penstock.testing import TestBed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

POINTS = (
    *("taken", "taken.plan", "taken.fragments", "taken.record", "commit", "sink.jsonl", "sink.progress"),
    *("sink.parquet", "sink.parquet.columns", "sink.parquet.reach"),
)
QUERIES: dict[str, tuple[str, Callable[[int], bool]]] = {
    "big": ("SELECT id, v FROM s WHERE v > 5", lambda v: v > 5),
    "some": ("SELECT id, v FROM s WHERE v IN (1, 7, 8)", lambda v: v in (1, 7, 8)),
    "alone": ("SELECT id FROM s WHERE v < 3 WITH (explode = true)", lambda v: v < 3),
}
PASSING: tuple[str, Callable[[int], bool]] = ("SELECT id, v FROM s WHERE v = 4", lambda v: v == 4)


class Killed(BaseException):
    """The end of a process, as far as the engine can tell."""


class Dying:
    """Batches of an engine that dies where it is told to, and is opened again."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.armed, self.deaths = spark, folder, "", list[str]()
        self.batch, self.next_id = 0, 0
        self.expected = Counter[tuple[str, int]]()
        self.passing = ""  # a query that only one batch knows, whose folder is new
        self.bed = self.opened()
        self.bed.stream("s", "ts TIMESTAMP, id BIGINT, v BIGINT", lateness="1 s")
        for name, (text, _) in QUERIES.items():
            self.bed.query(name, text)
        self.bed.query("n", "SELECT count(*) AS n FROM s [RANGE 5 s SLIDE 5 s]")

    def opened(self) -> TestBed:
        sinks: list[Sink] = [
            JsonLinesSink(self.folder / "lines"),
            ParquetSink(self.folder / "tables", roll_seconds=0.0),
        ]
        return TestBed(self.spark, state=self.folder / "state", sinks=sinks)

    def reached(self, moment: str) -> None:
        if moment == self.armed:
            self.armed = ""
            self.deaths.append(moment)
            raise Killed

    def step(self, moment: str) -> None:
        """Feed a batch, with another plan than the one before; the engine dies at a moment of it."""
        if self.passing:
            self.bed.engine.drop_query(self.passing)
        self.passing = f"passing{self.batch}"
        self.bed.query(self.passing, PASSING[0])
        rows = [(self.batch * 2 + place % 2, self.next_id + place, (self.batch + place) % 9) for place in range(9)]
        number, self.batch, self.next_id = self.batch, self.batch + 1, self.next_id + 9
        self.armed = moment
        try:
            self.bed.feed("s", rows, number=number)
        except Killed:
            self.bed.engine.streams.abandon_sinks()
            self.bed.engine.release()
            self.bed = self.opened()
            self.bed.feed("s", rows, number=number)  # as Spark sends it again
        queries = QUERIES | {self.passing: PASSING}
        taken = [(name, i) for name, (_, takes) in queries.items() for _, i, v in rows if takes(v)]
        self.expected += Counter(taken)

    def check(self) -> None:
        """Compare results and the sink with what every query should have answered."""
        found = Counter[tuple[str, int]]()
        for name in [*QUERIES, self.passing]:
            found.update((name, row["id"]) for row in self.bed.answers(name))
        there = {name for name, _ in found}
        assert found == Counter({key: n for key, n in self.expected.items() if key[0] in there})
        assert delivered(self.folder / "lines") == self.expected
        assert in_folders(self.folder / "tables") == self.expected


def delivered(folder: Path) -> Counter[tuple[str, int]]:
    """Count what the sink has of each query's rows."""
    found = Counter[tuple[str, int]]()
    for path in sorted(folder.glob("*each*.jsonl")):
        for line in path.read_text().splitlines():
            row: dict[str, Any] = json.loads(line)
            found.update((name, row["id"]) for name in row.get("queries") or [row["query_name"]])
    return found


def in_folders(folder: Path) -> Counter[tuple[str, int]]:
    """Count what the folders of queries have."""
    files = (path for path in folder.rglob("*.parquet") if path.name.startswith("s_each"))
    rows = (row for path in files for row in pq.read_table(path).to_pylist())
    return Counter((row["query_name"], row["id"]) for row in rows)


@pytest.fixture(autouse=True)
def no_hook_left() -> Iterator[None]:
    yield
    faults.hook = None


def test_a_death_at_any_durable_write_of_rows_loses_and_repeats_nothing(spark: SparkSession, tmp_path: Path) -> None:
    dying = Dying(spark, tmp_path)
    faults.hook = dying.reached
    moments = [f"{point}.{moment}" for point in POINTS for moment in MOMENTS]
    for moment in ["", *moments]:
        dying.step(moment)
    faults.hook = None
    dying.step("")
    dying.bed.engine.streams.wait_for_sinks()
    assert dying.deaths == moments
    dying.check()
    dying.bed.close()
