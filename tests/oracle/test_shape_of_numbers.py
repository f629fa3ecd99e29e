"""skewness and kurtosis answer as plain Spark does: of few, equal, far, tiny and infinite numbers, and of late rows."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.store import executor_state as spread
from penstock.testing import TestBed
from tests.evaluate.naive import shape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[float, str, float | None]
COLUMNS = "ts TIMESTAMP, k STRING, x DOUBLE"
LATE = "WITH (late = 'revise', revise_for = '1 min')"
QUERIES = {
    "by k": f"SELECT k, skewness(x) AS s, kurtosis(x) AS t FROM r [RANGE 8 s SLIDE 4 s] GROUP BY k {LATE}",
    "some": "SELECT k, skewness(x) AS s, kurtosis(x) AS t FROM r [RANGE 8 s SLIDE 4 s] WHERE x > 0 GROUP BY k",
}
NUMBERS: dict[str, list[float | None]] = {
    "one": [1.5],
    "equal": [0.1] * 9,  # whose sum divided by their number is not 0.1
    "two": [0.1, 0.1, 0.1, 0.3],
    "nulls": [None, None, None],
    "some nulls": [None, 1.0, 2.0, None, 5.0, 9.0],
    "zeros": [0.0, -0.0, 0.0],
    "nan": [1.0, math.nan, 2.0],
    "infinite": [math.inf],
    "both": [1.0, math.inf, -math.inf],
    "far": [1e9 + step / 8 for step in (0, 1, 1, 2, 5, 13, 40, 3)],
    "small": [1e-30, 2e-30, 4e-30, 5e-30, -3e-30],
    "tiny beside": [1e-60, 2e-60, 4e-60, 5.0, 5e-324, 7.0, 7.5, 1e-60],
    "huge": [1e60, 2e60, 4e60, -1e60],
    "beyond": [1e120, 2e120, 5e120, -1e120],
}
TINY: Row = (0.0, "tiny", 1e-60)  # of which plain Spark's skewness fails, with a division by zero


def made(draw: random.Random) -> list[Row]:
    """Spread the numbers over windows, those of a group in order, the first half of time again in the second."""
    found = []
    for k, numbers in NUMBERS.items():
        times = sorted(draw.uniform(0, 8) for _ in numbers)
        found += [(at + since, k, x) for since in (0, 12) for at, x in zip(times, numbers, strict=True)]
    return sorted(found, key=lambda row: row[0])


def wanted(spark: SparkSession, rows: list[Row], having: str) -> dict[tuple[float, str], tuple[Any, Any]]:
    """Ask plain Spark for every window of some rows."""
    plain = spark.newSession()
    plain.createDataFrame(rows, "at DOUBLE, k STRING, x DOUBLE").createOrReplaceTempView("all_rows")
    asked = f"""SELECT e, k, skewness(x), kurtosis(x)
        FROM all_rows, (VALUES (4), (8), (12), (16), (20), (24)) AS ends(e)
        WHERE at < e AND at >= e - 8 AND {having} GROUP BY e, k"""
    return {(float(e), k): (s, t) for e, k, s, t in plain.sql(asked).collect()}


def same(found: float | None, want: float | None, within: float) -> bool:
    if found is None or want is None:
        return found is want
    return math.isclose(found, want, rel_tol=within, abs_tol=within) or (math.isnan(found) and math.isnan(want))


@pytest.mark.parametrize(
    "max_driver_groups", [pytest.param(2, marks=pytest.mark.soak), 50_000], ids=["executors", "driver"]
)
def test_the_shape_of_numbers_is_sparks(
    spark: SparkSession, tmp_path: Path, max_driver_groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "BUCKETS", 3)
    draw = random.Random(3)
    rows = made(draw)
    late = [row for row in rows if row[0] < 8 and draw.random() < 0.2]
    first = [TINY, *(row for row in rows if row not in late)]
    with TestBed(spark, state=tmp_path, max_driver_groups=max_driver_groups) as bed:
        bed.stream("r", COLUMNS)
        for name, text in QUERIES.items():
            bed.query(name, text)
        bed.feed_in_cuts("r", first, [20, 25, len(first) - 45])
        bed.feed("r", late)
        bed.flush()
        for name, taken, having in (("by k", rows, "true"), ("some", [r for r in rows if r not in late], "x > 0")):
            assert bed.paused(name) is None
            want = wanted(spark, taken, having)
            answers = {((a["window_end"] - bed.epoch).total_seconds(), a["k"]): a for a in bed.answers(name)}
            tiny = [answers.pop(key) for key in list(answers) if key[1] == "tiny"]
            assert [(a["s"], a["t"]) for a in tiny] == [(None, None)] * 2  # it counts as zero
            assert answers.keys() == want.keys()
            for key, answer in answers.items():
                both = answer["s"], answer["t"]
                within = 1e-5 if key[1] == "far" else 1e-9  # Spark itself loses digits there
                assert all(same(*pair, within) for pair in zip(both, want[key], strict=True)), (
                    f"{name} {key}: {both} is not {want[key]}"
                )


def test_tiny_numbers_stop_no_stream_and_count_as_zero(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        bed.stream("r", COLUMNS)
        bed.query("shape", "SELECT k, skewness(x) AS s, kurtosis(x) AS t FROM r [RANGE 4 s SLIDE 4 s] GROUP BY k")
        bed.query("rows", "SELECT skewness(x) AS s, kurtosis(x) AS t FROM r [ROWS 4 SLIDE 3]")
        numbers = [1e-60, 2e-60, 5e-60, 5e-324, 1.0, 2.0, 7.0]
        bed.feed("r", [(place / 4, "tiny" if place < 4 else "usual", x) for place, x in enumerate(numbers)])
        bed.flush()
        found = {a["k"]: (a["s"], a["t"]) for a in bed.answers("shape")}
        exact = (shape("skewness", [1.0, 2.0, 7.0]), shape("kurtosis", [1.0, 2.0, 7.0]))
        assert found == {"tiny": (None, None), "usual": pytest.approx(exact)}
        last = [0.0, 0.0, 1.0, 2.0]
        assert [(a["s"], a["t"]) for a in bed.answers("rows")] == [
            (None, None),
            pytest.approx((shape("skewness", last), shape("kurtosis", last))),
        ]
