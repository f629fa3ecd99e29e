"""Rows with awkward keys, and plain Spark batch SQL of one grouped query alone over each of its windows."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.testing import TestBed
from tests.oracle.harness import same
from tests.oracle.spark_batch import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
COLUMNS = "ts TIMESTAMP, a INT, b STRING, x DOUBLE, v BIGINT, d DOUBLE"
TYPES = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("a", pa.int32()),
        ("b", pa.string()),
        ("x", pa.float64()),
        ("v", pa.int64()),
        ("d", pa.float64()),
    ]
)
AGGREGATES = "count(*) AS n, sum(v) AS total, avg(d) AS mean, min(b) AS least, max(d) AS most, stddev_pop(d) AS spread"
SHAPES = "skewness(d) AS skew, kurtosis(d) AS tails"


@dataclass(frozen=True)
class Grouped:
    """One query in parts, so that both engines can be asked for the same."""

    name: str
    select: str
    by: str
    range_s: int = 20
    slide_s: int = 10
    where: str | None = None
    having: str | None = None

    @property
    def text(self) -> str:
        window = f"[RANGE {self.range_s} s SLIDE {self.slide_s} s]"
        return f"SELECT {self.select} FROM r {window}{self.filtered} GROUP BY {self.by}{self.kept}"

    @property
    def filtered(self) -> str:
        return f" WHERE {self.where}" if self.where else ""

    @property
    def kept(self) -> str:
        return f" HAVING {self.having}" if self.having else ""


def awkward_rows(draw: random.Random, count: int, seconds: int) -> list[dict[str, Any]]:
    """Draw rows in order of time: keys that are NULL, NaN, 0.0 and -0.0, and values that cancel each other."""
    rows = []
    for at in sorted(draw.uniform(0, seconds) for _ in range(count)):
        rows.append(
            {
                "ts": START + timedelta(microseconds=int(at * 1e6)),
                "a": draw.choice([None, 1, 2, 3]),
                "b": draw.choice([None, "", "x", "y"]),
                "x": draw.choice([None, float("nan"), 0.0, -0.0, 1.5]),
                "v": draw.choice([None, draw.randint(-(2**40), 2**40)]),
                "d": draw.choice([None, draw.uniform(-1e3, 1e3), 1e12, -1e12]),
            }
        )
    return rows


class Batch:
    """Answers grouped queries over one table of rows; batch mode, one query at a time."""

    def __init__(self, spark: SparkSession, rows: list[dict[str, Any]], seconds: int) -> None:
        self.spark, self.seconds = spark.newSession(), seconds
        for name, value in SETTINGS.items():
            self.spark.conf.set(name, value)
        table = pa.Table.from_pylist(rows, TYPES)
        self.spark.createDataFrame(table).coalesce(1).createOrReplaceTempView("all_rows")

    def answers(self, query: Grouped) -> list[dict[str, Any]]:
        """Answer every window by plain SQL."""
        rows: list[dict[str, Any]] = self.spark.sql(self.text(query)).toArrow().to_pylist()
        return rows

    def text(self, query: Grouped) -> str:
        """Write the SQL that answers every window."""
        last = self.seconds + query.range_s
        ends = ", ".join(f"({end})" for end in range(query.slide_s, last + 1, query.slide_s))
        by = f"ROLLUP ({query.by[:-12]})" if query.by.endswith(" WITH ROLLUP") else query.by
        select = query.select.replace("grouping_id(a", "grouping_id(we, a")  # here the window is a key too
        since = f"timestamp '{START:%Y-%m-%d %H:%M:%S}'"
        return f"""
            SELECT we, {select} FROM (
                SELECT r.*, e.e AS we FROM all_rows r JOIN (VALUES {ends}) AS e(e)
                ON r.ts >= {since} + make_dt_interval(0, 0, 0, e.e - {query.range_s})
                AND r.ts < {since} + make_dt_interval(0, 0, 0, e.e)
            ){query.filtered} GROUP BY we, {by}{query.kept}"""


def check(bed: TestBed, batch: Batch, query: Grouped) -> None:
    """Compare a query's answers with those of plain Spark, whatever their order."""
    found = [_keyed(row, (row["window_end"] - START) // timedelta(seconds=1)) for row in bed.answers(query.name)]
    wanted = [_keyed(row, row["we"]) for row in batch.answers(query)]
    assert sorted(key for key, _ in found) == sorted(key for key, _ in wanted), query.text
    for (key, row), (_, other) in zip(sorted(found, key=_first), sorted(wanted, key=_first), strict=True):
        for name, value in row.items():
            if name not in ("window_start", "window_end"):
                assert _alike(name, value, other[name], row), (
                    f"{query.text}\n{key} {name}: {value} is not {other[name]}"
                )


def _alike(name: str, found: Any, wanted: Any, row: dict[str, Any]) -> bool:
    """Compare two values; doubles near 1e12 are added within what Σ|x| allows."""
    if name in ("spread", "skew", "tails") and found is not None and wanted is not None:
        return bool(abs(found - wanted) <= 1e-6 * max(1.0, abs(wanted)))
    return same(found, wanted, 1e12 * row.get("n", 1))


def _keyed(row: dict[str, Any], end: int) -> tuple[str, dict[str, Any]]:
    """Name a row by its window, keys and exact values."""
    names = ("a", "b", "x", "k", "g", "ga", "gb", "gx", "n", "total")
    exact = [repr(0.0 if row[name] == 0 else row[name]) for name in names if name in row]
    return f"{end:06d} {' '.join(exact)}", row


def _first(pair: tuple[str, dict[str, Any]]) -> str:
    return pair[0]
