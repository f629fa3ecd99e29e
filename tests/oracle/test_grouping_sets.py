"""ROLLUP, CUBE and GROUPING SETS mean what they mean in Spark, window by window."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.errors import LanguageError, Unsupported
from penstock.testing import TestBed
from tests.oracle.grouped_rows import AGGREGATES, COLUMNS, SHAPES, START, Batch, Grouped, awkward_rows, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
SECONDS = 60

QUERIES = (
    Grouped("rolled", f"a, b, grouping(a) AS ga, grouping(b) AS gb, {AGGREGATES}, {SHAPES}", "ROLLUP (a, b)"),
    Grouped("cubed", f"a, b, x, grouping_id() AS g, {AGGREGATES}", "CUBE (a, b, x)", 15, 10),
    Grouped("sets", f"a, b, grouping_id(a, b) AS g, {AGGREGATES}", "GROUPING SETS ((a), b, ())"),
    Grouped("with_rollup", f"x, b, {AGGREGATES}", "x, b WITH ROLLUP", 30, 6),
    Grouped("some", f"a, b, {AGGREGATES}", "a, ROLLUP (b)", where="v > 0 AND b <> 'y'"),
    Grouped("twice", "a, b, grouping_id() AS g, count(*) AS n", "a, ROLLUP (a, b)"),
    Grouped("together", "a, b, x, grouping_id() AS g, count(*) AS n", "CUBE ((a, b), x)"),
    Grouped("nested", "a, b, grouping_id() AS g, sum(v) AS total", "GROUPING SETS (ROLLUP (a, b), CUBE (b))"),
    Grouped("crossed", "a, b, x, grouping_id() AS g, count(*) AS n", "GROUPING SETS (a, b), ROLLUP (x)"),
    Grouped("computed", "a % 2 AS k, grouping(a % 2) AS g, sum(a) AS total", "ROLLUP (a % 2)"),
    Grouped("kept", f"a, b, {AGGREGATES}", "CUBE (a, b)", having="grouping(a) = 0 AND count(*) > 1"),
    Grouped("worded", "a, coalesce(b, 'all') AS k, count(*) * 2 AS n", "ROLLUP (a, b)"),
    Grouped("asked_of_spark", "a, hex(a) AS k, count(*) AS n", "ROLLUP (a)"),
)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 12))])
def test_grouping_sets_answer_as_spark_does(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    rows = awkward_rows(draw, 300, SECONDS)
    cuts = sorted(draw.sample(range(1, len(rows)), 4))
    bed = TestBed(spark, state=tmp_path)
    bed.stream("r", COLUMNS)
    for query in QUERIES:
        bed.query(query.name, query.text)
    for number, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        if number == 2:  # a restart changes nothing
            bed.close()
            bed = TestBed(spark, state=tmp_path)
        bed.feed("r", rows[first:last])
    bed.flush()
    batch = Batch(spark, rows, SECONDS)
    for query in QUERIES:
        check(bed, batch, query)
    bed.close()


def test_answers_of_grouping_sets_are_ordered_by_window_and_keys(spark: SparkSession) -> None:
    rows = [{"ts": START, "a": a, "b": b, "x": None, "v": 1, "d": None} for a in (2, None, 1) for b in ("y", None)]
    with TestBed(spark, epoch=START) as bed:
        bed.stream("r", COLUMNS)
        bed.query(
            "q", "SELECT a, b, grouping_id() AS g, count(*) AS n FROM r [RANGE 1 s SLIDE 1 s] GROUP BY ROLLUP (a, b)"
        )
        bed.feed("r", rows)
        bed.flush()
        assert bed.timeline("q") == [
            (1, None, None, 0, 1),
            (1, None, None, 1, 2),  # all rows without a
            (1, None, None, 3, 6),  # all rows
            (1, None, "y", 0, 1),
            (1, 1, None, 0, 1),
            (1, 1, None, 1, 2),
            (1, 1, "y", 0, 1),
            (1, 2, None, 0, 1),
            (1, 2, None, 1, 2),
            (1, 2, "y", 0, 1),
        ]


def test_grouping_sets_share_the_partials_of_the_finest(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        bed.stream("r", COLUMNS)
        bed.query("fine", "SELECT a, b, count(*) AS n FROM r [RANGE 1 s SLIDE 1 s] GROUP BY a, b")
        bed.query("rolled", "SELECT a, b, count(*) AS n FROM r [RANGE 1 s SLIDE 1 s] GROUP BY ROLLUP (a, b)")
        bed.feed("r", awkward_rows(random.Random(1), 20, 3))
        assert len(bed.engine.stream("r").pipeline.synopsis.lanes) == 1


def test_a_question_may_have_grouping_sets(spark: SparkSession) -> None:
    with TestBed(spark, epoch=START) as bed:
        bed.stream("r", COLUMNS)
        bed.query("fine", "SELECT a, count(*) AS n FROM r [RANGE 2 s SLIDE 1 s] GROUP BY a")
        bed.feed("r", [{"ts": s, "a": int(s) % 2, "b": None, "x": None, "v": 1, "d": None} for s in (0, 0.5, 1, 2, 3)])
        asked = bed.ask("SELECT a, count(*) AS n FROM r [RANGE 1 s] GROUP BY ROLLUP (a)")
        assert [(row["a"], row["n"]) for row in asked] == [(None, 1), (0, 1)]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT a, grouping(a) AS g FROM r [RANGE 1 s] GROUP BY a", "without grouping sets"),
        ("SELECT a, grouping(b) AS g FROM r [RANGE 1 s] GROUP BY ROLLUP (a)", "takes one of the grouping expressions"),
        ("SELECT a, grouping_id(b, a) AS g FROM r [RANGE 1 s] GROUP BY ROLLUP (a, b)", "all grouping expressions"),
        ("SELECT a, sum(grouping(a)) AS g FROM r [RANGE 1 s] GROUP BY ROLLUP (a)", "inside an aggregate"),
        (
            "SELECT a, count(*) AS n FROM r [RANGE 1 s] WHERE grouping(a) = 0 GROUP BY ROLLUP (a)",
            "not allowed in WHERE",
        ),
        ("SELECT count(*) AS n FROM r [RANGE 1 s] GROUP BY GROUPING SETS (())", "without a grouping expression"),
        ("SELECT a, count(*) AS n FROM r [RANGE 1 s] GROUP BY a, b GROUPING SETS ((a))", "after a list of expressions"),
        ("SELECT a, count(*) AS n FROM r [RANGE 1 s] GROUP BY ROLLUP ()", "found"),
        ("SELECT a, count(*) AS n FROM r [RANGE 1 s] GROUP BY ROLLUP (a", "expected"),
        ("SELECT a, b FROM r [RANGE 1 s] GROUP BY CUBE (a, b, x, v, d, a+1, a+2)", "too many grouping sets"),
    ],
)
def test_what_grouping_sets_cannot_be_is_said(spark: SparkSession, text: str, what: str) -> None:
    with TestBed(spark) as bed:
        bed.stream("r", COLUMNS)
        with pytest.raises(LanguageError, match=what.replace("(", r"\(")) as raised:
            bed.query("q", text.replace("RANGE 1 s", "RANGE 1 s SLIDE 1 s"))
        assert raised.value.place is not None


def test_answers_by_grouping_sets_are_not_revised(spark: SparkSession) -> None:
    text = "SELECT a, count(*) AS n FROM r [RANGE 1 s SLIDE 1 s] GROUP BY ROLLUP (a)"
    with TestBed(spark) as bed:
        bed.stream("r", COLUMNS)
        with pytest.raises(Unsupported, match="with ROLLUP, CUBE or GROUPING SETS"):
            bed.query("q", f"{text} WITH (late = 'revise', revise_for = '1 min')")


@pytest.mark.parametrize("by", [query.by for query in QUERIES])
def test_the_text_of_grouping_sets_is_read_back(spark: SparkSession, by: str) -> None:
    with TestBed(spark) as bed:
        bed.stream("r", COLUMNS)
        bed.query("q", f"SELECT count(*) AS n FROM r [RANGE 1 s SLIDE 1 s] GROUP BY {by}")
        first = bed.engine.catalog.query("q").query
        bed.query("again", str(first))
        second = bed.engine.catalog.query("again").query
        assert (second.text, second.keys, second.sets) == (first.text, first.keys, first.sets)
