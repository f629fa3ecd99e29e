"""The stream's time: invalid rows are kept aside, silence is not answered for ever, the first and last windows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from penstock.testing import EPOCH, ManualClock, TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def at(*seconds: float | None) -> list[tuple[float | None, int]]:
    return [(s, 1) for s in seconds]


def open_bed(spark: SparkSession, state: Path | None = None, *, now: float = 3600, lateness: str = "0 s") -> TestBed:
    bed = TestBed(spark, state=state, clock=ManualClock(EPOCH + timedelta(seconds=now)))
    bed.stream("s", "ts TIMESTAMP, x INT", lateness=lateness)
    return bed


def test_invalid_rows_are_counted_kept_aside_and_never_move_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    with open_bed(spark, tmp_path, now=100) as bed:
        bed.query("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        # ahead of the clock by 10 min is still valid, a microsecond more is not
        bed.feed("s", at(1, None, 700.000001, 90_000, 11))
        counts = bed.counts("s")
        assert (counts.ingested, counts.on_time, counts.late, counts.invalid) == (5, 2, 0, 3)
        assert bed.timeline("q") == [(10, 1)]
        bed.feed("s", at(700))
        assert bed.counts("s").invalid == 3
    kept = pq.read_table(tmp_path / "invalid" / "s" / f"{0:012d}")
    assert sorted(kept["x"].to_pylist()) == [1, 1, 1]


def test_a_long_silence_is_answered_for_ten_thousand_windows_and_reported_once(spark: SparkSession) -> None:
    with open_bed(spark, now=10**6) as bed:
        bed.query("every", "SELECT count(*) AS n FROM s [RANGE 2 s SLIDE 1 s]")
        bed.query("groups", "SELECT x, count(*) AS n FROM s [RANGE 2 s SLIDE 1 s] GROUP BY x")
        bed.feed("s", at(0.5, 200_000.5))
        bed.feed("s", at(200_003.5))
        #  0.5 s           10,002 s                        200,000.5 s
        #   •─┬─┬─┬─┬─ … ─┬─┤          not answered         ├─•─┬─┬─•
        #     1 2 3 4   10,001                              200,001 …
        found = bed.timeline("every")
        assert [e for e, _ in found] == [*range(1, 10_003), 200_001, 200_002, 200_003]
        assert [n for _, n in found] == [1, 1, *[0] * 10_000, 1, 1, 0]
        assert bed.timeline("groups") == [(1, 1, 1), (2, 1, 1), (200_001, 1, 1), (200_002, 1, 1)]
        (report,) = bed.reports("s")
        assert "189,998 empty windows skipped" in report


def test_a_flush_answers_through_the_last_window_that_holds_a_row(spark: SparkSession) -> None:
    with open_bed(spark, lateness="30 s") as bed:
        bed.query("wide", "SELECT count(*) AS n FROM s [RANGE 25 s SLIDE 10 s]")
        bed.query("hop", "SELECT count(*) AS n FROM s [RANGE 2 s SLIDE 10 s]")
        bed.feed("s", at(3, 9, 14))
        assert bed.timeline("wide") == []
        assert bed.engine.stream("s").open_windows() == 3 + 1
        bed.flush()
        #       -15       -5    0  3     9|10  14    |20       |30
        #  rows                    •     •     •
        #  wide  [----------------------- 2)
        #                  [------------------------- 3)
        #                            [5 ----------------------- 2)
        #  hop                          [8 1)               and 14 is in none
        assert bed.timeline("wide") == [(10, 2), (20, 3), (30, 2)]
        assert bed.timeline("hop") == [(10, 1)]


def test_a_late_row_enters_the_windows_that_are_not_final(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("q", "SELECT count(*) AS n FROM s [RANGE 20 s SLIDE 10 s]")
        bed.feed("s", at(5, 12))
        bed.feed("s", at(6, 25))
        #           0    5 6   10 12      20    25
        #  batch 1       •        •|                   watermark 12: the window that ends at 10 is final
        #  batch 2         •                  •|       6 is late: counted, and in [0, 20)
        assert bed.counts("s").late == 1
        assert bed.timeline("q") == [(10, 1), (20, 3)]


def test_a_query_added_later_begins_with_the_first_window_wholly_covered(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("old", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s]")
        bed.feed("s", at(1, 12, 18))
        bed.query("new", "SELECT max(x) AS n FROM s [RANGE 10 s SLIDE 5 s]")  # max(x) is not in old partials
        bed.query("same", "SELECT count(*) AS n FROM s [RANGE 5 s SLIDE 5 s]")  # rows and edges are
        bed.feed("s", at(22, 41))
        #        1        10 12  15  18|20 22 25    30    35    40 41
        #  rows  •           •       •|    •                       •
        #  new                         |[---------- 1)                 rows were seen until 18 s
        #  same            [--- 1)[- 1)|[-- 1)                         old still keeps the slices from 10 s on
        assert bed.timeline("new") == [(30, 1), (35, None), (40, None)]
        assert bed.timeline("same") == [(15, 1), (20, 1), (25, 1), (30, 0), (35, 0), (40, 0)]
