"""Approximate aggregates stay within what their sketches state; Spark's own functions read the merged sketches."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import TestBed
from tests.oracle.spark_batch import START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "ts TIMESTAMP, k STRING, x DOUBLE, i INT, d DECIMAL(8,2), day DATE"
W = "[RANGE 20 s SLIDE 10 s]"
CALLS = {
    "distinct": "approx_count_distinct(x)",
    "distinct words": "approx_count_distinct(k, 0.02)",
    "distinct days": "approx_count_distinct(day)",
    "percentile": "approx_percentile(x, array(0.1, 0.5, 0.9))",
    "whole": "percentile_approx(i, 0.5, 200)",
    "top": "approx_top_k(k, 3)",
    "top days": "approx_top_k(day, 2)",
    "top numbers": "approx_top_k(i, 2, 1000)",
    "hll": "hll_sketch_estimate(hll_sketch_agg(k))",
    "theta": "theta_sketch_estimate(theta_sketch_agg(i))",
    "kll": "kll_sketch_get_quantile_double(kll_sketch_agg_double(x), 0.5D)",
    "kll n": "kll_sketch_get_n_double(kll_sketch_agg_double(x))",
    "united": "hll_sketch_estimate(hll_union(hll_sketch_agg(k, 10), hll_sketch_agg(k, 10)))",
}
Row = dict[str, Any]


def rows_of(seed: int, count: int) -> list[Row]:
    rng = random.Random(seed)
    return [
        {
            "ts": 40 * n / count,
            "k": f"w{min(int(rng.expovariate(0.02)), 999)}",
            "x": rng.choice([None, rng.gauss(0, 10)]),
            "i": rng.randrange(3_000) if rng.random() < 0.5 else rng.randrange(3),
            "d": None,
            "day": (START + timedelta(days=rng.randrange(9))).date(),
        }
        for n in range(count)
    ]


def off_in_rank(values: Sequence[float], found: float, rank: float) -> float:
    """Return how far a value is from a rank; equal values span several."""
    ordered = sorted(values)
    below = sum(v < found for v in ordered) / len(ordered)
    upto = sum(v <= found for v in ordered) / len(ordered)
    return max(0.0, below - rank, rank - upto)


def check(name: str, found: Any, held: Sequence[Row]) -> None:
    x = [row["x"] for row in held if row["x"] is not None]
    words, numbers = Counter(row["k"] for row in held), Counter(row["i"] for row in held)
    match name:
        case "distinct":
            assert found == pytest.approx(len(set(x)), rel=3 * 1.04 / math.sqrt(1 << 12))
        case "distinct words" | "hll" | "united":
            assert found == pytest.approx(len(words), rel=3 * 1.04 / math.sqrt(1 << 10))
        case "theta":
            assert found == pytest.approx(len(numbers), rel=3 / math.sqrt(1 << 12))
        case "distinct days":
            assert found == len({row["day"] for row in held})
        case "percentile":
            assert all(off_in_rank(x, q, r) <= 0.0166 for q, r in zip(found, (0.1, 0.5, 0.9), strict=True))
        case "kll":
            assert off_in_rank(x, found, 0.5) <= 0.0166
        case "kll n":
            assert found == len(x)
        case "whole":
            assert isinstance(found, int)
            assert off_in_rank([row["i"] for row in held], found, 0.5) <= 1 / 200
        case "top":
            assert [(e["item"], e["count"]) for e in found] == first(words, 3)
        case "top numbers":
            assert {e["item"] for e in found} <= {0, 1, 2}
        case "top days":
            assert [(e["item"], e["count"]) for e in found] == first(Counter(row["day"] for row in held), 2)


def first(counts: Counter[Any], k: int) -> list[tuple[Any, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


def run(spark: SparkSession, seed: int, count: int, state: Path, kernel: Any = "fast") -> None:
    rows = rows_of(seed, count)
    cut = random.Random(seed).randrange(1, count)
    with TestBed(spark, state=state, epoch=START, kernel=kernel) as bed:
        bed.stream("t", COLUMNS)
        for name, call in CALLS.items():
            bed.query(name, f"SELECT {call} AS v FROM t {W}")
        bed.feed("t", rows[:cut])
    with TestBed(spark, state=state, epoch=START, kernel=kernel) as bed:
        bed.feed("t", rows[cut:])
        bed.flush()
        for name in CALLS:
            answers = bed.results(name).to_pylist()
            assert len(answers) == 5
            for answer in answers:
                start, end = ((answer[edge] - START).total_seconds() for edge in ("window_start", "window_end"))
                check(name, answer["v"], [row for row in rows if start <= row["ts"] < end])


@pytest.mark.parametrize("kernel", ["fast", "scan"])
def test_answers_stay_within_the_stated_bounds(spark: SparkSession, tmp_path: Path, kernel: Any) -> None:
    run(spark, 1, 3_000, tmp_path / "state", kernel)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 32))
def test_answers_stay_within_the_stated_bounds_for_many_seeds(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    run(spark, seed, 8_000, tmp_path / "state")


def test_an_approximate_answer_of_nothing_is_zero_null_or_an_empty_list(spark: SparkSession) -> None:
    with TestBed(spark, epoch=START) as bed:
        bed.stream("t", COLUMNS)
        calls = ["approx_count_distinct(x)", "approx_percentile(x, 0.5)", "approx_top_k(k)", "top(2, k)", "mode(k)"]
        for number, call in enumerate(calls):
            bed.query(f"q{number}", f"SELECT {call} AS v FROM t [RANGE 1 s SLIDE 1 s]")
        nothing: Row = {"k": None, "x": None, "i": None, "d": None, "day": None}
        bed.feed("t", [{"ts": 0.5, **nothing}, {"ts": 2.5, **nothing}])
        bed.flush()
        expected: list[Any] = [0, None, [], [], None]
        for number, empty in enumerate(expected):
            assert bed.results(f"q{number}")["v"].to_pylist() == [empty] * 3
