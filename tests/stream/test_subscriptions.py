"""Subscriptions to a query that is altered meanwhile are given every row that is answered, and none of them twice."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.errors import Unsupported
from penstock.stream.continuous.query_rows import Place
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "ts TIMESTAMP, id BIGINT, v BIGINT"


@dataclass
class Reader:
    """Somebody who reads a query now and then: where it goes on, what it was given, and what it should have been."""

    expected: Counter[int]
    given: Counter[int]
    place: Place | None = None

    def read(self, bed: TestBed, most: int) -> None:
        seen = bed.engine.subscribe("q", after=self.place)
        self.place = seen.place
        for _, table in zip(range(most), seen, strict=False):
            self.given.update(table["id"].to_pylist())
            self.place = seen.place


class Scene:
    """A query that is altered between batches, and its readers."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        self.spark, self.folder, self.draw = spark, folder, random.Random(seed)
        self.bed = TestBed(spark, state=folder)
        self.bed.stream("s", COLUMNS, retain_rows="1 h")
        self.bed.query("q", "SELECT id FROM s WHERE v > 2")
        self.least, self.ident, self.readers = 2, 0, list[Reader]()

    def results(self) -> Counter[int]:
        return Counter(row["id"] for row in self.bed.answers("q"))

    def feed(self) -> None:
        rows = []
        for _ in range(self.draw.randint(1, 6)):
            self.ident += 1
            rows.append((self.ident + self.draw.choice([0, 0, -3]), self.ident, self.draw.randrange(6)))
        self.bed.feed("s", rows)
        for reader in self.readers:
            reader.expected.update(ident for _, ident, v in rows if v > self.least)

    def alter(self) -> None:
        self.least = self.draw.randrange(5)
        since = self.draw.choice(["", "beginning", f"2026-01-05 00:00:{self.draw.randint(0, max(1, self.ident)):02}"])
        asked = f" WITH (from = '{since}')" if since else ""
        with self.bed.working():
            self.bed.engine.alter_query("q", f"SELECT id FROM s WHERE v > {self.least}{asked}")

    def begin(self) -> None:
        reader = Reader(self.results(), Counter())
        reader.read(self.bed, 1)
        self.readers.append(reader)

    def reopen(self) -> None:
        self.bed.close()
        self.bed = TestBed(self.spark, state=self.folder)

    def step(self) -> None:
        match self.draw.randrange(8):
            case 0 | 1 | 2:
                self.feed()
            case 3 | 4:
                self.alter()
            case 5:
                self.begin()
            case 6 if self.readers:
                self.draw.choice(self.readers).read(self.bed, self.draw.choice([1, 2, 99]))
            case 7 if self.draw.random() < 0.3:
                self.reopen()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_readers_who_come_and_go_are_given_each_row_once(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    scene = Scene(spark, tmp_path / "state", seed)
    scene.feed()
    scene.begin()
    for _ in range(24):
        scene.step()
    scene.alter()
    scene.begin()
    scene.feed()
    for reader in scene.readers:
        reader.read(scene.bed, 999)
        assert max(reader.given.values(), default=1) == 1
        assert reader.given == reader.expected
    assert scene.readers[-1].given == scene.results()
    scene.bed.close()


def test_what_a_later_version_takes_again_is_not_given_to_those_who_go_on(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path) as bed:
        bed.stream("s", COLUMNS, retain_rows="1 h")
        bed.query("q", "SELECT id FROM s WHERE v = 1")
        bed.feed("s", [(1, 1, 1), (2, 2, 2), (3, 3, 1)])
        at_work = bed.engine.subscribe("q")
        assert [table["id"].to_pylist() for table in at_work] == [[1, 3]]
        with bed.working():
            bed.engine.execute("ALTER QUERY q AS SELECT id FROM s WHERE v >= 1 WITH (from = 'beginning')")
        fresh = bed.engine.subscribe("q")
        bed.feed("s", [(4, 4, 2)])
        assert [table["id"].to_pylist() for table in fresh] == [[1, 2, 3], [4]]
        for place in (at_work.place, at_work.place[:2]):  # places had two numbers
            assert [table["id"].to_pylist() for table in bed.engine.subscribe("q", after=place)] == [[4]]
        assert list(bed.engine.subscribe("q", after=fresh.place)) == []


@pytest.mark.parametrize("since", ["beginning", "2026-01-05 00:00:02"])
def test_a_backfill_names_the_statement_that_gives_a_query_its_past(spark: SparkSession, since: str) -> None:
    with TestBed(spark) as bed:
        bed.stream("s", COLUMNS, retain_rows="1 h")
        bed.feed("s", [(1, 1, 1), (2, 2, 1)])
        bed.query("order by", "SELECT id FROM s")
        bed.feed("s", [(3, 3, 1)])
        with pytest.raises(Unsupported) as refused:
            bed.engine.backfill(["order by"], since)
        statement = str(refused.value.hint).partition("in Python, run ")[2].partition(": results")[0]
        assert str(refused.value.hint).startswith(f"Write WITH (from = '{since}') into its file")
        assert statement == f"ALTER QUERY `order by` SET (from = '{since}')"
        with bed.working():
            bed.engine.execute(statement)
        assert [row["id"] for row in bed.answers("order by")] == ([1, 2, 3] if since == "beginning" else [2, 3])
