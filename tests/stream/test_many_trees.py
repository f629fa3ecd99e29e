"""Many trees in one job: their rows are placed by tables, and answers are those of one tree."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.share.locate import FEW_TREES
from penstock.spark.job.many_trees import many_trees
from penstock.spark.job.partials import PartialsJob
from penstock.spark.job.writer import Bounds
from tests.stream import feeding

FORMS = (
    "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE {r} s SLIDE {s} s OFFSET {o} s] {w}",
    "SELECT k, count(*) AS n, max(v) AS x FROM s [RANGE {r} s SLIDE {s} s OFFSET {o} s] {w}GROUP BY k",
)


WHERES = ("", "WHERE v > 3 ", "WHERE v < 5 AND k = 'a' ")


def queries(count: int, wheres: tuple[str, ...]) -> dict[str, str]:
    draw, found = random.Random(4), {}
    for number in range(count):
        slide = draw.choice((2, 3, 5, 7))
        where = wheres[number % len(wheres)]
        text = FORMS[number % 2].format(r=draw.randint(1, 20), s=slide, o=draw.randrange(slide), w=where)
        found[f"q{number}"] = text
    return found


def answers(
    spark: SparkSession, strategy: str, count: int, wheres: tuple[str, ...]
) -> tuple[dict[str, list[tuple[object, ...]]], bool]:
    """Feed three batches, rows without a time and late ones among them; tell also whether tables placed the rows."""
    draw, asked = random.Random(5), queries(count, wheres)
    with feeding.open_bed(spark, strategy=strategy) as bed:
        for name, text in asked.items():
            bed.query(name, text)
        for clock in (0, 20, 35):
            rows = [
                {"ts": clock + draw.randrange(25), "k": draw.choice("ab"), "v": draw.randrange(9)} for _ in range(40)
            ]
            bed.feed("s", [*rows, {"ts": None, "k": "a", "v": 1}])
        layout = bed.engine.stream("s").pipeline.layout
        assert layout is not None
        return {name: sorted(map(tuple, bed.timeline(name)), key=repr) for name in asked}, many_trees(
            layout
        ) is not None


@pytest.mark.parametrize("wheres", [("",), WHERES])
@pytest.mark.parametrize("count", [FEW_TREES, 3 * FEW_TREES])
def test_many_trees_answer_as_one(spark: SparkSession, count: int, wheres: tuple[str, ...]) -> None:
    apart, by_tables = answers(spark, "unshared paired", count, wheres)
    together, _ = answers(spark, "shared paired", count, wheres)
    assert apart == together
    assert all(apart.values())
    assert by_tables == (count > FEW_TREES)


def test_more_conditions_than_a_method_holds_are_columns(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.job.many_trees.MOST_CONDITIONS", FEW_TREES)
    apart, by_tables = answers(spark, "unshared paired", FEW_TREES + 1, WHERES)
    together, _ = answers(spark, "shared paired", FEW_TREES + 1, WHERES)
    assert apart == together
    assert not by_tables


@pytest.mark.parametrize("wheres", [("",), WHERES])
def test_rows_that_are_copied_very_often_are_spread_over_all_cores_first(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, wheres: tuple[str, ...]
) -> None:
    spread, count = [], 2 * FEW_TREES
    frame = PartialsJob.frame

    def watched(job: PartialsJob, batch: DataFrame, tables: Mapping[str, DataFrame], bounds: Bounds) -> DataFrame:
        found = frame(job, batch, tables, bounds)
        spread.append("RepartitionByExpression [__t" in found._jdf.queryExecution().analyzed().toString())
        return found

    monkeypatch.setattr(PartialsJob, "frame", watched)
    whole, _ = answers(spark, "unshared paired", count, wheres)
    assert not any(spread)  # 32 copies of 41 rows
    monkeypatch.setattr("penstock.spark.job.partials.MANY_COPIES", count * 41)
    spread.clear()
    assert answers(spark, "unshared paired", count, wheres)[0] == whole
    assert all(spread)
    spread.clear()
    answers(spark, "unshared paired", count - 1, wheres)
    assert not any(spread)  # fewer copies of a row
