"""Random window joins of two streams pair the rows that DuckDB pairs, however both streams' batches alternate."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.store import faults
from penstock.testing import TestBed
from tests.oracle.join_cases import KEYS, JoinCase, as_pairs, disturbed, drawn, fed, wanted, windows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = (0, 3, 4, 6, 1020, 1084)  # many pairs; two threw rows away too early after restarts, once
DISTURBED = (1, 3, 6)
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


class Ends(BaseException):
    """Stands for the end of the process."""


def feed(bed: TestBed, case: JoinCase, number: int) -> bool:
    """Feed a batch, with the same number again after a death; tell whether the process ended in the middle."""
    side, rows = case.feeds[number]
    stream, left = case.names[side], case.deaths.get(number, -1)
    before = sum(case.names[other] == stream for other, _ in case.feeds[:number])

    def hook(point: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Ends(point)

    faults.hook = hook if left >= 0 else None
    try:
        bed.feed(stream, fed(case, rows), number=before)
    except Ends:
        case.deaths[number] = -1
        return True
    finally:
        faults.hook = None
    return False


def check(spark: SparkSession, state: Path, seed: int, *, disturb: bool = False) -> tuple[int, int]:
    """Feed a drawn case, with restarts, and compare every join; return how many pairs there were, and deaths."""
    draw, ended = random.Random(seed), 0
    case = drawn(draw)
    forms = [draw.choice(["on", "using"]) for _ in case.joins]
    case = disturbed(case, draw) if disturb else case
    bed = opened(spark, state, case)
    try:
        for number in range(len(case.feeds)):
            if number in case.restarts:
                bed.close()
                bed = opened(spark, state, case)
            for join, form in zip(case.joins, forms, strict=True):
                if join.after == number:
                    bed.engine.execute(f"CREATE STREAM {join.name} AS {case.text(join, form)}")
                    bed.query(f"q{join.name}", COUNTED.format(join.name))
                    bed.query(f"w{join.name}", WINDOWS.format(join.name))
            for name in (name for name, gone in case.drops.items() if gone == number):
                bed.engine.execute(f"DROP QUERY q{name}; DROP QUERY w{name}; DROP STREAM {name}")
            while feed(bed, case, number):
                ended += 1
                bed.close()
                bed = opened(spark, state, case)
        bed.flush()
        epoch_us, pairs = int(bed.epoch.timestamp()) * 1_000_000, 0
        for join in case.joins:
            if case.drops.get(join.name, len(case.feeds)) < len(case.feeds):
                continue
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
    return pairs, ended


@pytest.fixture(autouse=True)
def eager_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the folders of rows that wait together after few commits."""
    monkeypatch.setattr("penstock.spark.kept_rows.commit_folders.FAN_IN", 3)


def test_joins_pair_the_rows_that_duckdb_pairs(spark: SparkSession, tmp_path: Path) -> None:
    pairs = [check(spark, tmp_path / str(seed), seed)[0] for seed in SEEDS]
    assert min(pairs) > 10


def test_joins_pair_the_same_when_the_process_ends_at_any_write_and_other_joins_go(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = [check(spark, tmp_path / str(seed), seed, disturb=True) for seed in DISTURBED]
    assert min(pairs for pairs, _ in found) > 5
    assert sum(ended for _, ended in found) > 5


@pytest.mark.soak
@pytest.mark.parametrize("thousand", range(4))
def test_thousands_of_joins_pair_the_rows_that_duckdb_pairs(spark: SparkSession, tmp_path: Path, thousand: int) -> None:
    for seed in range(1_000 * thousand + 100, 1_000 * thousand + 1_100):
        check(spark, tmp_path / str(seed), seed, disturb=seed % 2 == 1)
