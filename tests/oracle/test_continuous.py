"""Dozens of continuous queries at once answer, in any batches, just the rows that plain Spark takes for each alone."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Sink
from penstock.testing import TestBed
from tests.oracle.spark_batch import SETTINGS
from tests.oracle.test_predicates import SCHEMA, make_rows, predicate

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

OUTPUTS = ["n", "i", "d", "m", "s", "b", "t", "upper(s)", "n IS NULL", "d + 0.5D", "coalesce(s, 'none')", "twice(i)"]
KINDS = [{"s": s, "kind": kind} for s, kind in [("a", "vowel"), ("b", "other"), ("ab", "pair"), ("", "none")]]
# A condition, something that is answered, and the rows on which one of them fails.
FAILING = [
    ("10 / n > 1", "n", "n = 0"),
    ("i >= 0", "100 / i", "i = 0"),
    ("b", "CAST(s AS INT)", "b AND s IS NOT NULL AND s <> '10'"),
    ("i + 1 > 0", "i", "i = 2147483647"),
]
LATENESS_S = 1


@dataclass
class Asked:
    """One query: what is written, what Spark answers of each row by its id, and the rows on which it fails."""

    text: str
    rows: dict[int, tuple[Any, ...]]
    failing: frozenset[int] = frozenset()
    answered: list[tuple[Any, ...]] = field(default_factory=list)  # commit, late, values
    stopped: bool = False
    exploded: bool = False


def plain(values: Any) -> tuple[Any, ...]:
    return tuple(repr(value) for value in values)


class Oracle:
    """Plain Spark over all rows at once."""

    def __init__(self, spark: SparkSession, rows: pa.Table) -> None:
        self.spark = spark.newSession()
        for key, value in SETTINGS.items():
            self.spark.conf.set(key, value)
        self.spark.createDataFrame(rows).coalesce(1).createOrReplaceTempView("r")
        self.spark.createDataFrame(KINDS).createOrReplaceTempView("kinds")
        self.spark.sql("CREATE TEMPORARY FUNCTION twice(x INT) RETURNS BIGINT RETURN CAST(x AS BIGINT) * 2")

    def taken(self, select: str, where: str | None, joined: str) -> dict[int, tuple[Any, ...]] | None:
        """Return what is answered of each row by its id; None: Spark refuses or fails."""
        condition = f" WHERE {where}" if where else ""
        try:
            found = self.spark.sql(f"SELECT r.id, {select} FROM r{joined}{condition}").toArrow()
        except Exception:
            return None
        columns = [column.to_pylist() for column in found.columns]
        return {row[0]: plain(row) for row in zip(*columns, strict=True)}


def drawn(draw: random.Random, oracle: Oracle) -> Asked | None:
    """Draw a query; None: Spark refuses it, or it fails on some row."""
    exploded = draw.random() < 0.2
    options = " WITH (explode = true)" if exploded else ""
    if draw.random() < 0.12:
        number = draw.randrange(len(FAILING))
        where, output, fails = FAILING[number]
        safe = oracle.taken(output, f"NOT coalesce({fails}, false) AND ({where})", "")
        failing = oracle.taken("n", fails, "")
        assert safe is not None
        assert failing is not None
        text = f"SELECT id, {output} AS f{number} FROM r WHERE {where}{options}"
        return Asked(text, safe, frozenset(failing), exploded=exploded)
    outputs = draw.sample(OUTPUTS, draw.randint(1, 4))
    joined = draw.random() < 0.25
    side = draw.choice(["JOIN", "LEFT JOIN"])
    join = f" {side} kinds ON r.s = kinds.s" if joined else ""
    asked: str | None = predicate(draw) if draw.random() < 0.9 else None
    named = {output: f"x{OUTPUTS.index(output)}" for output in outputs}
    if joined:
        named = {output: name for output, name in named.items() if "s" not in output.replace("IS", "")}
        named |= {"kind": "kind"}
    select = ", ".join(f"{output} AS {name}" for output, name in named.items())
    if joined:
        asked = draw.choice(["kind = 'vowel'", "kind IN ('pair', 'none') OR n > 0", "kind <> 'other' AND i < 7", None])
    rows = oracle.taken(select, asked, join)
    if rows is None:
        return None
    condition = f" WHERE {asked}" if asked else ""
    return Asked(f"SELECT r.id, {select} FROM r{join}{condition}{options}", rows, exploded=exploded)


class Scene:
    """Queries that come and go over rows in batches, in an engine that is opened again now and then."""

    def __init__(self, spark: SparkSession, folder: Path, draw: random.Random, rows: pa.Table) -> None:
        self.spark, self.folder, self.draw, self.all = spark, folder, draw, rows
        self.oracle, self.live, self.gone = Oracle(spark, rows), dict[str, Asked](), dict[str, Asked]()
        self.number, self.latest = 0, -1
        self.opened()

    def opened(self) -> None:
        self.tables = ParquetSink(self.folder / "tables", roll_seconds=self.draw.choice([0.0, 60.0]))
        sinks: list[Sink] = [JsonLinesSink(self.folder / "sink"), self.tables]
        self.bed = TestBed(self.spark, state=self.folder / "state", sinks=sinks)
        if self.number == 0:
            self.bed.stream("r", SCHEMA, lateness=f"{LATENESS_S} s")
            self.bed.engine.execute("CREATE FUNCTION twice(x INT) RETURNS BIGINT RETURN CAST(x AS BIGINT) * 2")
        self.bed.table("kinds", KINDS)

    def create(self, count: int) -> None:
        """Enter queries together."""
        fresh: dict[str, Asked] = {}
        while len(fresh) < count:
            if (asked := drawn(self.draw, self.oracle)) is not None:
                fresh[f"q{self.number}"] = asked
                self.number += 1
        with self.bed.working():
            self.bed.engine.create_queries({name: asked.text for name, asked in fresh.items()})
        self.live |= fresh

    def change(self) -> None:
        """Drop, pause, resume or add some queries, or open the engine again."""
        for name in self.draw.sample(sorted(self.live), min(3, len(self.live))):
            match self.draw.randrange(4):
                case 0:
                    self.bed.engine.drop_query(name)
                    self.gone[name] = self.live.pop(name)
                case 1:
                    self.bed.engine.pause_query(name)
                    self.live[name].stopped = True
                case _:
                    self.bed.engine.resume_query(name)
                    self.live[name].stopped = False
        if self.draw.random() < 0.5:
            self.create(2)
        if self.draw.random() < 0.4:
            self.bed.close()
            self.opened()

    def feed(self, places: list[int]) -> None:
        """Feed the rows of some places, and work out who answers them."""
        watermark = self.latest * 50 - LATENESS_S * 1_000 if self.latest >= 0 else None
        self.bed.feed("r", self.all.take(places))
        commit = self.bed.engine.stream("r").pipeline.progress.clock.number
        for name, asked in self.live.items():
            if asked.stopped:
                continue
            if not asked.failing.isdisjoint(places):
                asked.stopped = True
                assert self.bed.paused(name), (name, asked.text)
                continue
            late = {place: watermark is not None and place * 50 < watermark for place in places}
            asked.answered += [(commit, late[place], asked.rows[place]) for place in places if place in asked.rows]
        self.latest = max(self.latest, *places)

    def check(self) -> None:
        """Compare everything that was answered, here and in the sink."""
        self.bed.engine.streams.wait_for_sinks()
        ordinals: dict[int, tuple[int, int]] = {}
        shown = Counter[tuple[str, int, int]]()
        for name, asked in self.live.items():
            found = [tuple(row.values()) for row in self.bed.results(name).to_pylist()]
            told = [(commit, late, plain(values)) for _, commit, _, late, *values in found]
            assert Counter(told) == Counter(asked.answered), (name, asked.text)
            assert [(c, t) for t, c, *_ in found] == sorted((c, t) for t, c, *_ in found)
            assert (self.bed.paused(name) is not None) == asked.stopped
            for _, commit, ordinal, _, ident, *_ in found:
                assert ordinals.setdefault(ident, (commit, ordinal)) == (commit, ordinal)
                shown[name, commit, ident] += 1
        self.check_sink(shown)
        self.check_tables(shown)

    def check_sink(self, shown: Counter[tuple[str, int, int]]) -> None:
        """Compare what the sink has: a row once with its queries, or by itself for each that explodes."""
        delivered = Counter[tuple[str, int, int]]()
        places = set[tuple[int, int]]()
        for path in sorted((self.folder / "sink").glob("*.jsonl")):
            for line in path.read_text().splitlines():
                row = json.loads(line)
                if "queries" in row:
                    assert (row["commit"], row["ordinal"]) not in places
                    places.add((row["commit"], row["ordinal"]))
                for name in row.get("queries") or [row["query_name"]]:
                    delivered[name, row["commit"], row["id"]] += 1
        mine = Counter({key: count for key, count in delivered.items() if key[0] in self.live})
        assert mine == shown

    def check_tables(self, shown: Counter[tuple[str, int, int]]) -> None:
        """Compare what each query's folder has: its rows alone, in its own columns."""
        self.bed.engine.stream("r").delivery.roll()
        for name in self.live:
            mine = Counter({key: count for key, count in shown.items() if key[0] == name})
            files = sorted(self.tables.folder_of(name).rglob("*.parquet"))
            tables = [pq.read_table(file, partitioning=None) for file in files]
            rows = [row for table in tables for row in table.to_pylist()]
            assert Counter((row["query_name"], row["commit"], row["id"]) for row in rows) == mine
            columns = ["query_name", "query_version", *self.bed.results(name).column_names]
            assert all(table.column_names == columns for table in tables)


def play(spark: SparkSession, folder: Path, seed: int, *, queries: int, batches: int) -> None:
    draw = random.Random(seed)
    scene = Scene(spark, folder, draw, make_rows(draw, 240))
    scene.create(queries)
    order = sorted(range(240), key=lambda place: place + draw.uniform(-40, 40))
    cuts = sorted(draw.sample(range(1, 240), batches - 1))
    for start, end in zip([0, *cuts], [*cuts, 240], strict=True):
        scene.feed(order[start:end])
        if draw.random() < 0.5:
            scene.change()
    scene.check()
    scene.bed.close()


@pytest.mark.parametrize(("seed", "written_by_executors"), [(1, False), (3, True)])
def test_continuous_queries_answer_the_rows_that_spark_takes(
    spark: SparkSession, tmp_path: Path, seed: int, written_by_executors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if written_by_executors:
        monkeypatch.setattr("penstock.stream.continuous.row_storing.FEW_ROWS", -1)
        monkeypatch.setattr("penstock.stream.continuous.row_storing.FEW_BYTES", -1)
    play(spark, tmp_path, seed, queries=42, batches=5)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(60))
def test_many_more_continuous_queries_answer_the_rows_that_spark_takes(
    spark: SparkSession, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    if seed % 3 == 0:
        monkeypatch.setattr("penstock.stream.continuous.row_storing.FEW_ROWS", -1)
        monkeypatch.setattr("penstock.stream.continuous.row_storing.FEW_BYTES", -1)
    play(spark, tmp_path, seed, queries=60, batches=8)
