"""Rows become partials where that costs less, and answers do not depend on where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.kernel.row_aggregation import RowAggregation
from penstock.model.aggregation import AGGREGATIONS, Aggregation
from penstock.stream import aggregation_choice
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")

COLUMNS = "ts TIMESTAMP, k STRING, v INT"
ROWS = [{"ts": second / 4, "k": "abc"[second % 3], "v": second} for second in range(80)]
PLAIN = "SELECT k, sum(v) AS total FROM s [RANGE 4 s SLIDE 2 s] GROUP BY k"
ALL = "SELECT count(*) AS n FROM s [RANGE 4 s SLIDE 2 s] WHERE v % 2 = 0"
STATE = "SELECT k, median(v) AS middle FROM s [RANGE 4 s SLIDE 2 s] GROUP BY k"


def answers(spark: SparkSession, queries: list[str], **options: Any) -> tuple[list[Any], int]:
    """Run queries over four batches; also tell how many rows the driver aggregated."""
    with TestBed(spark, **options) as bed:
        bed.stream("s", COLUMNS)
        for number, text in enumerate(queries):
            bed.query(f"q{number}", text)
        for first in range(0, len(ROWS), 20):
            bed.feed("s", ROWS[first : first + 20])
        bed.flush()
        found = [bed.results(f"q{number}").to_pylist() for number in range(len(queries))]
        return found, bed.engine.stream("s").pipeline.metrics.rows_sent


def test_answers_do_not_depend_on_where_rows_are_aggregated(spark: SparkSession) -> None:
    found = {place: answers(spark, [PLAIN, ALL, STATE], aggregation=place) for place in AGGREGATIONS}
    assert found["driver"][0] == found["executors"][0] == found["auto"][0]
    assert found["driver"][1] == len(ROWS)
    assert found["executors"][1] == 0


@pytest.mark.parametrize(
    ("queries", "from_batch"),
    [([PLAIN], None), ([PLAIN, ALL], 0), ([STATE], 0)],
    ids=["one plain grouping", "two groupings", "a state"],
)
def test_small_batches_of_several_groupings_or_with_states_are_aggregated_here(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, queries: list[str], from_batch: int | None
) -> None:
    monkeypatch.setattr(aggregation_choice, "size_in_bytes", lambda batch: 1_000)  # Spark knows files, not this source
    _, rows = answers(spark, queries)
    assert rows == (0 if from_batch is None else len(ROWS) - 20 * from_batch)


def test_large_batches_are_aggregated_by_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregation_choice, "FEW_ROWS", 10)
    monkeypatch.setattr(aggregation_choice, "MANY_ROWS", 10)
    monkeypatch.setattr(aggregation_choice, "ROW_BYTES", -1)
    monkeypatch.setattr(aggregation_choice, "MUCH_FILLED", 2.0)
    assert answers(spark, [PLAIN, ALL])[1] == 0
    monkeypatch.setattr(aggregation_choice, "MUCH_FILLED", 0.1)
    assert answers(spark, [PLAIN, ALL])[1] == len(ROWS) - 20


def test_a_stream_about_as_large_as_few_rows_does_not_change_its_job_with_every_batch(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregation_choice, "MUCH_FILLED", 100.0)
    monkeypatch.setattr(aggregation_choice, "MANY_ROWS", 0)
    monkeypatch.setattr(aggregation_choice, "ROW_BYTES", 1 << 40)
    for few, sent in ((10, len(ROWS)), (9, 20)):  # batches of 20 rows, the first one judged by its bytes
        monkeypatch.setattr(aggregation_choice, "FEW_ROWS", few)
        assert answers(spark, [PLAIN, ALL])[1] == sent


def test_a_defect_of_the_driver_leaves_rows_to_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected, _ = answers(spark, [PLAIN, ALL], aggregation="executors")

    def broken(*_: object) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(RowAggregation, "partials", broken)
    found, rows = answers(spark, [PLAIN, ALL])
    assert found == expected
    assert rows == 0
    assert "nobody foresaw this" in caplog.text


@pytest.mark.parametrize("place", ["driver", "executors"])
def test_more_than_the_driver_may_be_sent_is_aggregated_by_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, place: Aggregation
) -> None:
    def too_much(*_: object) -> None:
        raise spark_error("Total size of serialized results is bigger than spark.driver.maxResultSize")

    expected, _ = answers(spark, [PLAIN, ALL], aggregation="executors")
    monkeypatch.setattr(RowAggregation, "partials", too_much)
    assert answers(spark, [PLAIN, ALL], aggregation=place)[0] == expected


def spark_error(text: str) -> Exception:
    """Make an exception as Spark raises it."""
    from pyspark.errors import PySparkException

    return PySparkException(text)
