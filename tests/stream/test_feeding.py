"""Groupings that feed each other answer as each would alone, whoever feeds whom, and whenever that changes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.share.grouping_rollup import Feeding
from penstock.stream import grouping_plan as groupings
from penstock.testing import TestBed
from tests.oracle.grouped_rows import AGGREGATES, COLUMNS, SHAPES, START, Batch, Grouped, awkward_rows, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
SECONDS = 60
A, B, X, AB, ABX = ("`a`",), ("`b`",), ("`x`",), ("`a`", "`b`"), ("`a`", "`b`", "`x`")
BA = ("`b`", "`a`")
FEEDINGS: tuple[Feeding, ...] = (
    {},
    {"all": {ABX: (A, B, X, AB, BA, ())}},
    {"all": {AB: (A, B, BA, AB)}},
    {"all": {ABX: (X, A), AB: (AB, B)}},
    {"all": {AB: ((), A)}},
)
QUERIES = (
    Grouped("by_a", f"a, {AGGREGATES}", "a"),
    Grouped("by_b", f"b, {AGGREGATES}, {SHAPES}", "b", 15, 10),
    Grouped("by_x", f"x, {AGGREGATES}", "x", where="v > 0"),
    Grouped("by_ab", f"a, b, {AGGREGATES}", "a, b", 30, 6, where="a > 1 OR b = 'x'"),
    Grouped("by_ba", f"a, b, {AGGREGATES}", "b, a"),
    Grouped("holistic", "b, count(DISTINCT a) AS n, percentile(v, 0.25) AS mean", "b"),
    Grouped("by_a_more", f"a, {AGGREGATES}", "a", where="v > 0"),
)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 12))])
def test_fed_groupings_answer_as_plain_spark(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    rows = awkward_rows(draw, 300, SECONDS)
    cuts = sorted(draw.sample(range(1, len(rows)), 7))
    bed = TestBed(spark, state=tmp_path, aggregation="executors")
    bed.stream("r", COLUMNS)
    for query in QUERIES:
        bed.query(query.name, query.text)
    bed.query("all", "SELECT count(*) AS n FROM r [RANGE 20 s SLIDE 10 s] WHERE v > 0")
    for number, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        if number in (3, 6):
            bed.close()
            bed = TestBed(spark, state=tmp_path, aggregation="executors")
        if number == 2:  # a query that comes and goes disturbs nobody
            bed.query("passing", "SELECT a, x, count(*) AS n FROM r [RANGE 5 s SLIDE 5 s] GROUP BY a, x")
        if number == 5:
            bed.engine.drop_query("passing")
        bed.engine.stream("r").pipeline.groupings.feeding = draw.choice(FEEDINGS)
        bed.feed("r", rows[first:last])
    bed.flush()
    batch = Batch(spark, rows, SECONDS)
    for query in QUERIES:
        check(bed, batch, query)
    counted = {(r["window_end"] - START).seconds: r["n"] for r in bed.answers("all")}
    for end, n in counted.items():
        took = [r for r in rows if end - 20 <= (r["ts"] - START).total_seconds() < end and (r["v"] or 0) > 0]
        assert n == len(took)
    bed.close()


def test_a_failing_key_pauses_its_own_query_and_not_those_it_feeds_with(spark: SparkSession) -> None:
    with TestBed(spark, epoch=START, aggregation="executors") as bed:
        bed.stream("r", COLUMNS)
        bed.query("bad", "SELECT 10 / a AS k, count(*) AS n FROM r [RANGE 1 s SLIDE 1 s] WHERE v > 0 GROUP BY 10 / a")
        bed.query("good", "SELECT b, count(*) AS n FROM r [RANGE 1 s SLIDE 1 s] GROUP BY b")
        pipeline = bed.engine.stream("r").pipeline
        (bad,) = (d.query.keys for d in bed.engine.catalog.definitions("r") if d.name == "bad")
        pipeline.groupings.feeding = {"all": {(*bad, "`b`"): (bad, B)}}
        row = {"b": "x", "x": None, "d": None}
        bed.feed("r", [{"ts": 0, "a": 0, "v": -1, **row}, {"ts": 0.5, "a": 5, "v": 1, **row}])
        assert len(pipeline.layout.members) == 1  # type: ignore[union-attr]
        assert bed.paused("bad") is None  # the row on which its key fails is not one of its rows
        bed.feed("r", [{"ts": 1, "a": 0, "v": 1, **row}, {"ts": 2, "a": 5, "v": 1, **row}])
        bed.flush()
        assert bed.timeline("bad") == [(1, 2.0, 1)]
        assert "zero" in (bed.paused("bad") or "")
        assert bed.timeline("good") == [(1, "x", 2), (2, "x", 1), (3, "x", 1)]


def test_a_large_batch_is_looked_at_and_a_phantom_made(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groupings, "MANY_ROWS", 100)
    monkeypatch.setattr(groupings, "MANY_BYTES", 1 << 40)
    rows = awkward_rows(random.Random(3), 12_000, SECONDS)
    with TestBed(spark, compiled=True, aggregation="executors") as bed:
        bed.stream("r", COLUMNS)
        bed.query("by_a", "SELECT a, count(*) AS n FROM r [RANGE 20 s SLIDE 10 s] WHERE v > 0 GROUP BY a")
        bed.query("by_b", "SELECT b, count(*) AS n FROM r [RANGE 20 s SLIDE 10 s] GROUP BY b")
        pipeline = bed.engine.stream("r").pipeline
        bed.feed("r", rows[:1_000])  # small enough as far as anybody knows
        assert pipeline.groupings.estimates == {}
        bed.feed("r", rows[1_000:9_000])
        estimate = pipeline.groupings.estimates["all"]
        assert estimate.rows == 8_000
        by_ab = {(r["ts"].second // 10, r["a"], r["b"], (r["v"] or 0) > 0) for r in rows[1_000:9_000]}
        assert abs(estimate.partials[AB] - len(by_ab)) <= 0.2 * len(by_ab)
        assert estimate.groups == {A: 4.0, B: 4.0}
        assert pipeline.groupings.feeding == {"all": {AB: (A, B)}}
        bed.feed("r", rows[9_000:])
        bed.flush()
        batch = Batch(spark, rows, SECONDS)
        check(bed, batch, Grouped("by_a", "a, count(*) AS n", "a", where="v > 0"))
        check(bed, batch, Grouped("by_b", "b, count(*) AS n", "b"))
