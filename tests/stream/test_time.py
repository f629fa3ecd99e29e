"""The stream's time: invalid rows are kept aside, silence is not answered for ever, the first and last windows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("x", pa.int32())])


def rows(spark: SparkSession, *seconds: float | None) -> Any:
    times = [None if s is None else START + timedelta(seconds=s) for s in seconds]
    return spark.createDataFrame(
        pa.table({"ts": pa.array(times, SCHEMA.field("ts").type), "x": pa.array([1] * len(times), pa.int32())})
    )


def open_engine(spark: SparkSession, state: Path | None = None, *, now: float = 3600, lateness: str = "0 s") -> Engine:
    clock = lambda: int((START.timestamp() + now) * 1_000_000)  # noqa: E731
    engine = Engine(state, spark=spark, clock=clock)
    engine.create_stream("s", spark.createDataFrame(SCHEMA.empty_table()), time="ts", lateness=lateness)
    return engine


def answers(engine: Engine, name: str) -> list[tuple[int, int]]:
    found = engine.results(name).to_pylist()
    return [(round((r["window_end"] - START).total_seconds()), r["n"]) for r in found]


def test_invalid_rows_are_counted_kept_aside_and_never_move_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    with open_engine(spark, tmp_path, now=100) as engine:
        engine.create_query("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        # ahead of the clock by 10 min is still valid, a microsecond more is not
        engine.stream("s").process(rows(spark, 1, None, 700.000001, 90_000, 11), 0)
        counts = engine.stream("s").pipeline.progress.counts
        assert (counts.ingested, counts.on_time, counts.late, counts.invalid) == (5, 2, 0, 3)
        assert answers(engine, "q") == [(10, 1)]
        engine.stream("s").process(rows(spark, 700), 1)
        assert engine.stream("s").pipeline.progress.counts.invalid == 3
    kept = pq.read_table(tmp_path / "invalid" / "s" / f"{0:012d}")
    assert sorted(kept["x"].to_pylist()) == [1, 1, 1]


def test_a_long_silence_is_answered_for_ten_thousand_windows_and_reported_once(spark: SparkSession) -> None:
    with open_engine(spark, now=10**6) as engine:
        engine.create_query("every", "SELECT count(*) AS n FROM s [RANGE 2 s SLIDE 1 s]")
        engine.create_query("groups", "SELECT x, count(*) AS n FROM s [RANGE 2 s SLIDE 1 s] GROUP BY x")
        engine.stream("s").process(rows(spark, 0.5, 200_000.5), 0)
        engine.stream("s").process(rows(spark, 200_003.5), 1)
        found = answers(engine, "every")
        #  rows at 0.5 s: windows 1, 2; then 10,000 empty ones; then silence until the windows of 200,000.5 s
        assert [e for e, _ in found] == [*range(1, 10_003), 200_001, 200_002, 200_003]
        assert [n for _, n in found] == [1, 1, *[0] * 10_000, 1, 1, 0]
        assert answers(engine, "groups") == [(1, 1), (2, 1), (200_001, 1), (200_002, 1)]
        (report,) = engine.stream("s").pipeline.reports
        assert "189,998 empty windows skipped" in report


def test_a_flush_answers_through_the_last_window_that_holds_a_row(spark: SparkSession) -> None:
    with open_engine(spark, lateness="30 s") as engine:
        engine.create_query("wide", "SELECT count(*) AS n FROM s [RANGE 25 s SLIDE 10 s]")
        engine.create_query("hop", "SELECT count(*) AS n FROM s [RANGE 2 s SLIDE 10 s]")
        engine.stream("s").process(rows(spark, 3, 9, 14), 0)
        assert answers(engine, "wide") == []
        assert engine.stream("s").open_windows() == 3 + 1
        engine.stream("s").flush()
        #  3 ─ 9 ── 14        wide: [-15,10) [-5,20) [5,30);  hop: [8,10) holds 9, and 14 is in none
        assert answers(engine, "wide") == [(10, 2), (20, 3), (30, 2)]
        assert answers(engine, "hop") == [(10, 1)]


def test_a_late_row_enters_the_windows_that_are_not_final(spark: SparkSession) -> None:
    with open_engine(spark) as engine:
        engine.create_query("q", "SELECT count(*) AS n FROM s [RANGE 20 s SLIDE 10 s]")
        engine.stream("s").process(rows(spark, 5, 12), 0)  # watermark 12: the window that ends at 10 is final
        engine.stream("s").process(rows(spark, 6, 25), 1)  # 6 is late: counted, and in [0, 20)
        assert engine.stream("s").pipeline.progress.counts.late == 1
        assert answers(engine, "q") == [(10, 1), (20, 3)]


def test_a_query_added_later_begins_with_the_first_window_wholly_covered(spark: SparkSession) -> None:
    with open_engine(spark) as engine:
        engine.create_query("old", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s]")
        engine.stream("s").process(rows(spark, 1, 12, 18), 0)
        engine.create_query("new", "SELECT max(x) AS n FROM s [RANGE 10 s SLIDE 5 s]")  # max(x) is not in old partials
        engine.create_query("same", "SELECT count(*) AS n FROM s [RANGE 5 s SLIDE 5 s]")  # rows and edges are
        engine.stream("s").process(rows(spark, 22, 41), 1)
        #  frontier just after 18 s: new begins at [20, 30); same may use the slices from 10 s on that old still keeps
        assert answers(engine, "new") == [(30, 1), (35, None), (40, None)]
        assert answers(engine, "same") == [(15, 1), (20, 1), (25, 1), (30, 0), (35, 0), (40, 0)]
