"""Random window joins of two streams pair the rows that DuckDB pairs, however both streams' batches alternate."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.testing import TestBed
from tests.oracle.join_cases import KEYS, JoinCase, as_pairs, drawn, fed, wanted, windows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = (0, 3, 4, 6, 1020, 1084)  # many pairs; two threw rows away too early after restarts, once
COUNTED = "SELECT i, j, v, s, unix_micros(ts) AS t, count(*) AS n FROM {} [RANGE 1000 s SLIDE 1000 s] "
COUNTED += "GROUP BY i, j, v, s, unix_micros(ts)"
WINDOWS = "SELECT i, count(*) AS n FROM {} [RANGE 7 s SLIDE 5 s] GROUP BY i"


def opened(spark: SparkSession, state: Path, case: JoinCase) -> TestBed:
    bed = TestBed(spark, state=state)
    for name, lateness in (
        dict(zip(case.names, case.lateness, strict=True)).items() if not case.selfish else [("a", case.lateness[0])]
    ):
        bed.stream(name, f"ts TIMESTAMP, id BIGINT, v INT, w INT, {KEYS[case.keys][0]}", lateness=f"{lateness} s")
    return bed


def check(spark: SparkSession, state: Path, seed: int) -> int:
    """Feed a drawn case, with restarts, and compare every join; return how many pairs there were."""
    draw = random.Random(seed)
    case = drawn(draw)
    forms = [draw.choice(["on", "using"]) for _ in case.joins]
    bed = opened(spark, state, case)
    try:
        for number, (side, rows) in enumerate(case.feeds):
            if number in case.restarts:
                bed.close()
                bed = opened(spark, state, case)
            for join, form in zip(case.joins, forms, strict=True):
                if join.after == number:
                    bed.engine.execute(f"CREATE STREAM {join.name} AS {case.text(join, form)}")
                    bed.query(f"q{join.name}", COUNTED.format(join.name))
                    bed.query(f"w{join.name}", WINDOWS.format(join.name))
            bed.feed(case.names[side], fed(case, rows))
        bed.flush()
        epoch_us, pairs = int(bed.epoch.timestamp()) * 1_000_000, 0
        for join in case.joins:
            expected = wanted(case, join)
            assert as_pairs(bed.results(f"q{join.name}"), epoch_us) == expected, (seed, join, case)
            windows = {(end, i): n for end, i, n in bed.timeline(f"w{join.name}")}
            assert windows == windows_of(case, join, 7, 5), (seed, join, case)
            counts = bed.counts(join.name)
            assert counts.whole
            assert (counts.ingested, counts.invalid) == (expected.total(), 0)
            pairs += expected.total()
    finally:
        bed.close()
    return pairs


def test_joins_pair_the_rows_that_duckdb_pairs(spark: SparkSession, tmp_path: Path) -> None:
    pairs = [check(spark, tmp_path / str(seed), seed) for seed in SEEDS]
    assert min(pairs) > 10


@pytest.mark.soak
@pytest.mark.parametrize("thousand", range(4))
def test_thousands_of_joins_pair_the_rows_that_duckdb_pairs(spark: SparkSession, tmp_path: Path, thousand: int) -> None:
    for seed in range(1_000 * thousand + 100, 1_000 * thousand + 1_100):
        check(spark, tmp_path / str(seed), seed)
