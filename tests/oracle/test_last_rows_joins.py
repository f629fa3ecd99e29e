"""Random joins with the last rows of each key pair the rows that DuckDB pairs, however batches of both sides come."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from penstock.testing import TestBed
from tests.oracle.join_cases import CONDITIONS, KEYS, JoinCase, as_pairs, disturbed, drawn, judged_rows, literal
from tests.oracle.test_joins import COUNTED, feed, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS, DISTURBED = (1, 2, 3, 5, 109), (1, 4, 6)  # of the last one, a −0.0 was no 0.0 once


@dataclass(frozen=True)
class Side:
    """A window of one side: a range in seconds, or the last rows of each value of some columns."""

    seconds: float = 0
    rows: int = 0
    partition: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f"PARTITION BY {', '.join(self.partition)} " if self.partition else ""
        return f"[{by}ROWS {self.rows}]" if self.rows else f"[RANGE {round(self.seconds * 1000)} ms]"

    @property
    def leaves(self) -> str:
        """Write when a row leaves in DuckDB: no column tells equal rows of one time apart but its number."""
        if not self.rows:
            return f"ts + {self.seconds} + 0.000001"
        by = f"PARTITION BY {', '.join(self.partition)} " if self.partition else ""
        return f"coalesce(lead(ts, {self.rows}) OVER ({by}ORDER BY ts, id), 1e18)"


def drawn_side(draw: random.Random, case: JoinCase, *, of_rows: bool) -> Side:
    if not of_rows:
        return Side(draw.choice([0.5, 2, 5, 20]))
    columns = [*case.key_names, "v", "w"]
    return Side(rows=draw.choice([1, 1, 2, 3]), partition=tuple(draw.sample(columns, draw.choice([0, 1, 1, 1, 2]))))


def wanted(case: JoinCase, sides: tuple[Side, Side], condition: str, after: int) -> Counter[tuple[Any, ...]]:
    """Join in DuckDB the rows on time that are in their windows when the later of both comes."""
    with duckdb.connect() as db:
        parts = dict(part.split() for part in KEYS[case.keys][0].split(", "))
        columns = ", ".join(f"{name} {'VARCHAR' if kind == 'STRING' else kind}" for name, kind in parts.items())
        for number, (name, side) in enumerate(zip("xy", sides, strict=True)):
            db.execute(f"CREATE TABLE {name}_rows (ts BIGINT, id BIGINT, v INT, w INT, {columns})")
            for row in judged_rows(case, number):
                if row["feed"] >= after and row["ts"] >= row["judged"]:
                    values = [literal(row[column], column, parts) for column in ("ts", "id", "v", "w", *parts)]
                    db.execute(f"INSERT INTO {name}_rows VALUES ({', '.join(values)})")
            db.execute(f"CREATE TABLE {name} AS SELECT *, {side.leaves} AS leaves FROM {name}_rows")
        keys = " AND ".join(f"x.{name} = y.{name}" for name in case.key_names)
        found = db.execute(
            "SELECT x.id, y.id, x.v, x.v + y.w, greatest(x.ts, y.ts) "
            f"FROM x JOIN y ON {keys} WHERE least(x.leaves, y.leaves) > greatest(x.ts, y.ts)"
            + condition.replace("12 / x.v", "12.0 / x.v")
        ).fetchall()
    return Counter(found)


def check(spark: SparkSession, state: Path, seed: int, *, disturb: bool = False) -> tuple[int, int]:
    """Feed a drawn case, with restarts, and compare two joins; return how many pairs there were, and deaths."""
    draw, ended = random.Random(seed), 0
    case = drawn(draw)
    after, of_rows = case.joins[-1].after, draw.choice([(True, False), (False, True), (True, True)])
    case = disturbed(case, draw) if disturb else case
    joins = {
        name: (tuple(drawn_side(draw, case, of_rows=rows) for rows in of_rows), draw.choice(CONDITIONS))
        for name in ("p", "q")
    }
    bed: TestBed = opened(spark, state, case)
    try:
        for number in range(len(case.feeds)):
            if number in case.restarts:
                bed.close()
                bed = opened(spark, state, case)
            for name, (sides, condition) in joins.items():
                if after == number:
                    keys = " AND ".join(f"y.{key} = x.{key}" for key in case.key_names)
                    bed.engine.execute(
                        f"CREATE STREAM {name} AS SELECT x.id AS i, y.id AS j, x.v AS v, x.v + y.w AS s "
                        f"FROM {case.names[0]} {sides[0]} x JOIN {case.names[1]} {sides[1]} y ON {keys}{condition}"
                    )
                    bed.query(f"q{name}", COUNTED.format(name))
            while feed(bed, case, number):
                ended += 1
                bed.close()
                bed = opened(spark, state, case)
        bed.flush()
        epoch_us, pairs = int(bed.epoch.timestamp()) * 1_000_000, 0
        for name, (sides, condition) in joins.items():
            expected = wanted(case, (sides[0], sides[1]), condition, after)
            assert as_pairs(bed.results(f"q{name}"), epoch_us) == expected, (seed, name, list(map(str, sides)), case)
            counts = bed.counts(name)
            assert (counts.ingested, counts.on_time, counts.invalid) == (expected.total(), expected.total(), 0)
            pairs += expected.total()
    finally:
        bed.close()
    return pairs, ended


@pytest.fixture(autouse=True)
def eager_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put folders together after few commits, and write them again once few rows have left."""
    monkeypatch.setattr("penstock.spark.kept_rows.commit_folders.FAN_IN", 3)
    monkeypatch.setattr("penstock.spark.kept_rows.join_rows.WRITTEN_AGAIN_FROM", 2)
    monkeypatch.setattr("penstock.spark.kept_rows.join_rows.GROWN", 1.2)


def test_joins_with_the_last_rows_pair_the_rows_that_duckdb_pairs(spark: SparkSession, tmp_path: Path) -> None:
    pairs = [check(spark, tmp_path / str(seed), seed)[0] for seed in SEEDS]
    assert sum(pairs) > 50


def test_joins_with_the_last_rows_pair_the_same_when_the_process_ends_at_any_write(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = [check(spark, tmp_path / str(seed), seed, disturb=True) for seed in DISTURBED]
    assert sum(ended for _, ended in found) > 5


@pytest.mark.soak
@pytest.mark.parametrize("hundred", range(20))
def test_many_joins_with_the_last_rows_pair_the_rows_that_duckdb_pairs(
    spark: SparkSession, tmp_path: Path, hundred: int
) -> None:
    for seed in range(100 * hundred + 100, 100 * hundred + 200):
        check(spark, tmp_path / str(seed), seed, disturb=seed % 2 == 1)
