"""Windows of rows have the same answers whether the driver numbers and aggregates the rows or Spark does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from penstock.spark.kept_rows import commit_folders, row_numbers
from penstock.spark.kept_rows.row_buffer import HASH, RowBuffer
from penstock.stream import aggregation_choice
from penstock.stream.derived import partitioned_rows, row_windows
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")

COLUMNS = "ts TIMESTAMP, k STRING, v INT, b BIGINT, x DOUBLE, d DECIMAL(12, 2), f FLOAT, day DATE"
WINDOW = "FROM s [ROWS 7 SLIDE 3]"
QUERIES = {
    "plain": f"SELECT count(*) AS n, sum(v) AS s, sum(b) AS t, avg(x) AS m, max(f) AS f, min(day) AS day {WINDOW}",
    "keys": f"SELECT k, x, count(v) AS n, stddev(v) AS w, max(k) AS last, sum(d) AS d {WINDOW} GROUP BY k, x",
    "taken": f"SELECT k, sum(v + 1) AS s {WINDOW} WHERE v % 3 = 1 GROUP BY k",
    "apart": "SELECT x, count(*) AS n, sum(b) AS s FROM s [PARTITION BY x ROWS 3 SLIDE 2] GROUP BY x",
}
TIME = "SELECT count(*) AS n FROM s [RANGE 5 s SLIDE 5 s] WHERE v > 3"


def row(number: int) -> dict[str, Any]:
    """Make a row; some are alike in everything."""
    x = [0.0, -0.0, math.nan, 1.5, None][number // 2 % 5]
    big = None if number % 7 == 0 else (number - 20) * 10_000_000_019
    told: dict[str, Any] = {"k": [None, "a", "ä"][number // 2 % 3], "v": number // 2, "b": big, "x": x, "f": x}
    return {"ts": (number // 4) + (number % 3 == 0), **told, "d": None, "day": None}


def fed(bed: TestBed, batches: range) -> None:
    for batch in batches:
        bed.feed("s", [row(number) for number in range(batch * 15, batch * 15 + 15)])


def opened(spark: SparkSession, state: Path | None, lateness: str = "2 s", **options: Any) -> TestBed:
    bed = TestBed(spark, state=state, **options)
    bed.stream("s", COLUMNS, lateness=lateness)
    return bed


def asked(bed: TestBed, queries: dict[str, str]) -> None:
    for name, text in queries.items():
        bed.query(name, text)


def answers(bed: TestBed) -> dict[str, list[str]]:
    bed.flush()
    return {name: sorted(map(repr, bed.results(name).to_pylist())) for name in QUERIES}


def by_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Let Spark number all rows, and aggregate them."""
    with monkeypatch.context() as patched, opened(spark, None, aggregation="executors") as bed:
        patched.setattr(row_numbers, "FEW_ROWS", 0)
        asked(bed, QUERIES)
        fed(bed, range(3))
        return answers(bed)


def test_a_few_rows_are_numbered_and_aggregated_here_as_by_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = by_spark(spark, monkeypatch)
    assert all(wanted.values())
    monkeypatch.setattr(row_windows, "number_rows", None)  # nobody calls these
    monkeypatch.setattr(partitioned_rows, "number_parts", None)
    with opened(spark, None) as bed:
        asked(bed, {**QUERIES, "time": TIME})  # whose job sends the rows that are kept
        fed(bed, range(3))
        assert answers(bed) == wanted


def test_rows_that_an_earlier_version_kept_are_numbered_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their files have no hash."""
    with opened(spark, tmp_path) as bed:
        asked(bed, QUERIES)
        fed(bed, range(2))
    [*files] = (tmp_path / "waiting").rglob("*.parquet")
    assert files
    for file in files:
        table = pq.ParquetFile(file).read()
        pq.write_table(table.drop_columns([HASH]), file)
    with opened(spark, tmp_path) as bed:
        fed(bed, range(2, 3))
        assert answers(bed) == by_spark(spark, monkeypatch)


def test_files_that_are_put_together_can_still_be_numbered_here(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_folders, "FAN_IN", 2)
    monkeypatch.setattr(row_windows, "number_rows", None)
    with opened(spark, tmp_path, "1 h") as bed:
        bed.query("q", f"SELECT count(*) AS n, sum(v) AS s {WINDOW}")
        fed(bed, range(3))
        assert any("-" in file.parent.name for file in (tmp_path / "waiting").rglob("*.parquet"))
        bed.flush()
        assert len(bed.answers("q")) == 45 // 3


def test_a_row_that_a_join_repeats_is_kept_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job of the joined query sends it twice, with all its columns."""
    monkeypatch.setattr(RowBuffer, "keep", None)  # no other job keeps rows
    with opened(spark, None, aggregation="driver") as bed:
        monkeypatch.setattr(
            aggregation_choice, "size_in_bytes", lambda batch: 1_000
        )  # Spark knows files, not this source
        bed.table("names", [{"k": "a", "name": "first"}, {"k": "a", "name": "second"}])
        joined = "SELECT name, count(*) AS n FROM s [RANGE 5 s SLIDE 5 s] JOIN names USING (k) GROUP BY name"
        asked(bed, {"joined": joined, "q": "SELECT count(*) AS n, sum(v) AS s FROM s [ROWS 15 SLIDE 15]"})
        fed(bed, range(3))
        bed.flush()
        assert {row["name"] for row in bed.answers("joined")} == {"first", "second"}
        rows = [row(number) for number in range(45)]
        assert sum(one["s"] for one in bed.answers("q")) == sum(one["v"] for one in rows)
