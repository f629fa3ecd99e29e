"""New queries say from when on they answer, and answer at once what is stored, kept or can be read again."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine import Engine
from penstock.errors import PenstockError, SourceError, UnknownQuery
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = datetime(2026, 1, 5, tzinfo=UTC)
COUNT = "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"


def rows(*seconds: float) -> list[dict[str, Any]]:
    return [{"ts": ts, "k": "ab"[int(ts) % 2], "v": int(ts)} for ts in seconds]


def open_bed(spark: SparkSession, **options: Any) -> TestBed:
    declared = {name: options.pop(name) for name in ("retain_rows", "dedup") if name in options}
    bed = TestBed(spark, **options)
    bed.stream("s", "ts TIMESTAMP, k STRING, v INT", **declared)
    return bed


def seconds(first_end_us: int | None) -> float | None:
    return None if first_end_us is None else first_end_us / 1e6 - EPOCH.timestamp()


def test_a_query_without_rows_before_it_begins_with_the_first_window(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        entered = bed.query("q", COUNT)
        assert (entered.first_end_us, entered.first_window) == (None, None)
        assert str(entered) == 'query "q" answers from the first window on: no row has come yet'


def test_what_is_not_stored_begins_with_the_first_window_after_the_frontier(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("old", COUNT)
        bed.feed("s", rows(1, 12))
        entered = bed.query("q", "SELECT max(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        assert seconds(entered.first_end_us) == 30  # 20 to 30: no row after 12 was missed
        bed.feed("s", rows(15, 25, 41))
        assert bed.timeline("q") == [(30, 25), (40, None)]


def test_retained_partials_answer_a_new_window_at_once(spark: SparkSession) -> None:
    #   rows   1   12  18    25    31 | new query [RANGE 15 s SLIDE 6 s]: edges every second are kept
    with open_bed(spark) as bed:
        bed.query("old", f"{COUNT} WITH (retain = '1 min')")
        bed.feed("s", rows(1, 12, 18, 25, 31))
        entered = bed.query("q", "SELECT count(*) AS n FROM s [RANGE 15 s SLIDE 6 s]")
        assert seconds(entered.first_end_us) == 6
        assert bed.timeline("q") == [(6, 1), (12, 1), (18, 1), (24, 2), (30, 2)]
        bed.feed("s", rows(33, 37))
        assert bed.timeline("q")[-1] == (36, 3)


def test_retained_partials_that_are_gone_answer_later_windows_only(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("old", f"{COUNT} WITH (retain = '20 s')")
        bed.feed("s", rows(*range(0, 60)))
        entered = bed.query("q", COUNT)  # shares its windows; partials since 59 - 20 = 39 are there
        assert seconds(entered.first_end_us) == 50
        assert bed.timeline("q") == [(50, 10)]


@pytest.mark.parametrize("strategy", ["shared paired", "unshared paired"])
def test_kept_rows_answer_any_new_query_at_once(spark: SparkSession, strategy: Any) -> None:
    with open_bed(spark, retain_rows="30 s", strategy=strategy) as bed:
        bed.query("old", COUNT)
        bed.feed("s", rows(*range(0, 20)))
        bed.feed("s", rows(*range(20, 60)))
        entered = bed.query("q", "SELECT k, sum(v) AS x FROM s [RANGE 5 s SLIDE 5 s] WHERE v <> 47 GROUP BY k")
        first = seconds(entered.first_end_us)
        assert first is not None
        assert first <= 35  # rows since 59 - 30 = 29 are there for certain
        ends = [end for end in range(int(first), 60, 5)]
        expected = [
            (end, k, sum(v for v in range(end - 5, end) if "ab"[v % 2] == k and v != 47)) for end in ends for k in "ab"
        ]
        assert bed.timeline("q") == expected
        bed.feed("s", rows(60, 65))
        assert bed.timeline("q")[len(expected) :] == [(60, "a", 56 + 58), (60, "b", 55 + 57 + 59), (65, "a", 60)]


def test_a_promise_outlives_the_query_that_it_rests_on_and_a_crash(spark: SparkSession, tmp_path: Path) -> None:
    with open_bed(spark, state=tmp_path) as bed:
        bed.query("old", "SELECT count(*) AS n FROM s [RANGE 1 min SLIDE 1 min]")
        bed.feed("s", rows(1, 12, 25))
        entered = bed.query("q", "SELECT count(*) AS n FROM s [RANGE 1 min SLIDE 1 min]")
        assert seconds(entered.first_end_us) == 60
        bed.engine.drop_query("old")
        bed.engine._folder.release()  # type: ignore[union-attr]  # as if the process had died
    with open_bed(spark, state=tmp_path) as bed:
        bed.feed("s", rows(61))
        assert bed.timeline("q") == [(60, 3)]


def test_dropping_a_query_leaves_the_aggregates_of_others_over_the_same_rows(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("sum", "SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        bed.query("max", "SELECT max(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        bed.feed("s", rows(1, 2))
        bed.engine.drop_query("max")
        bed.feed("s", rows(5, 11))
        bed.query("max", "SELECT max(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        bed.feed("s", rows(21, 31))
        assert bed.timeline("sum") == [(10, 8), (20, 11), (30, 21)]
        assert bed.timeline("max") == [(30, 21)]


def test_a_lifetime_ends_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    from penstock.testing import ManualClock

    clock = ManualClock("2026-01-05 01:00:00")
    with open_bed(spark, clock=clock, state=tmp_path) as bed:
        bed.query("short", f"{COUNT} WITH (lifetime = '1 min')")
        bed.query("long", COUNT)
        bed.feed("s", rows(1, 12))
        clock.advance("61 s")
        bed.feed("s", rows(21))
        assert bed.timeline("long") == [(10, 1), (20, 1)]
        with pytest.raises(UnknownQuery):
            bed.timeline("short")
    with open_bed(spark, clock=clock, state=tmp_path) as bed:
        assert bed.engine.catalog.query_names() == ["long"]


# Rows of the past that the source still has.


def put(folder: Path, number: int, times: range) -> None:
    folder.mkdir(exist_ok=True)
    table = pa.table(
        {
            "ts": pa.array([EPOCH + timedelta(seconds=t) for t in times], pa.timestamp("us", tz="UTC")),
            "v": pa.array(list(times), pa.int32()),
            "w": pa.array([2 * t for t in times], pa.int32()),
        }
    )
    path = folder / f"{number:03d}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark reads files in this order


def file_engine(spark: SparkSession, tmp_path: Path) -> Engine:
    engine = Engine(tmp_path / "state", spark=spark)
    engine.execute(
        f"CREATE STREAM s (ts TIMESTAMP, v INT, w INT) USING parquet "
        f"OPTIONS (path '{tmp_path / 'source'}', maxFilesPerTrigger 1) WATERMARK FOR ts"
    )
    return engine


def found(engine: Engine, name: str) -> list[tuple[float, Any]]:
    answers = engine.results(name, "rows")
    return [((a["window_end"] - EPOCH).total_seconds(), a["x"]) for a in answers]


def sums(ends: range, factor: int = 1) -> list[tuple[float, int]]:
    return [(end, factor * sum(range(max(0, end - 10), end))) for end in ends]


def test_backfilled_answers_meet_the_live_ones_without_gap_or_duplicate(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    put(source, 0, range(0, 25))
    put(source, 1, range(25, 47))
    with file_engine(spark, tmp_path) as engine:
        engine.create_query("live", "SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        engine.process_available()
        put(source, 2, range(47, 62))  # not read yet: it must not count twice
        engine.create_query("all", "SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s] WITH (from = 'beginning')")
        text = "SELECT sum(w) AS x FROM s [RANGE 10 s SLIDE 10 s] WITH (from = '2026-01-05 00:00:15')"
        entered = engine.create_query("since", text)
        assert seconds(entered.first_end_us) == 30
        assert found(engine, "all") == found(engine, "live") == sums(range(10, 50, 10))
        assert found(engine, "since") == sums(range(30, 50, 10), 2)
    with file_engine(spark, tmp_path) as engine:
        engine.process_available()
        assert found(engine, "all") == found(engine, "live") == sums(range(10, 70, 10))
        assert found(engine, "since") == sums(range(30, 70, 10), 2)


def test_a_query_that_answers_already_is_backfilled_before_its_first_window(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    put(source, 0, range(0, 35))
    with file_engine(spark, tmp_path) as engine:
        engine.create_query("live", "SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        engine.process_available()
        engine.create_query("late", "SELECT sum(w) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        put(source, 1, range(35, 65))
        engine.process_available()
        assert found(engine, "late") == sums(range(50, 70, 10), 2)
        assert engine.backfill(["late", "live"], "2026-01-05 00:00:10") == {"late": 3, "live": 0}
        assert found(engine, "late") == sums(range(20, 70, 10), 2)
        assert engine.backfill(["late"]) == {"late": 1}
        assert found(engine, "late") == sums(range(10, 70, 10), 2)
        assert engine.backfill(["late"]) == {"late": 0}
    with file_engine(spark, tmp_path) as engine:
        put(source, 2, range(65, 75))
        engine.process_available()
        assert found(engine, "late") == sums(range(10, 80, 10), 2)


def test_a_past_that_cannot_be_had_is_refused_and_nothing_is_entered(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("old", COUNT)
        bed.feed("s", rows(1, 12))
        with pytest.raises(SourceError, match="past rows") as raised:
            bed.query("q", "SELECT max(v) AS x FROM s [RANGE 10 s SLIDE 10 s] WITH (from = 'beginning')")
        assert "retain_rows" in str(raised.value)
        assert bed.engine.catalog.query_names() == ["old"]
        with pytest.raises(PenstockError, match="backfill begins"):
            bed.engine.backfill(["old"], "yesterday")
        bed.feed("s", rows(21))
        assert bed.timeline("old") == [(10, 1), (20, 1)]
