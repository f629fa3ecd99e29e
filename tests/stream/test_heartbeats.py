"""A silent stream goes on by the clock, in steps that are recorded; clocks that jump do no harm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.store.commits import Counts
from penstock.testing import ManualClock, TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = "2026-01-05 00:00:00"  # what the bed's seconds count from


def row(ts: float, v: int = 1) -> dict[str, Any]:
    return {"ts": ts, "v": v}


def open_bed(spark: SparkSession, clock: ManualClock, state: Path | None = None) -> TestBed:
    bed = TestBed(spark, clock=clock, state=state)
    bed.stream("s", "ts TIMESTAMP, v INT", lateness="2 s", idle="10 s")
    bed.query("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    return bed


def test_after_idle_without_rows_the_watermark_goes_on_by_the_time_elapsed(spark: SparkSession) -> None:
    #   clock       20        29   30                  41
    #   watermark   17 (19-2)      27: window 20       38: window 30, empty
    clock = ManualClock(START)
    with open_bed(spark, clock) as bed:
        clock.advance("20 s")
        bed.feed("s", [row(1), row(12), row(19)])
        clock.advance("9 s")
        assert not bed.heartbeat("s")
        clock.advance("1 s")
        assert bed.heartbeat("s")
        assert bed.timeline("q") == [(10, 1), (20, 2)]
        assert not bed.heartbeat("s")
        clock.advance("11 s")
        assert bed.heartbeat("s")
        assert bed.timeline("q") == [(10, 1), (20, 2), (30, 0)]


def test_a_query_after_a_silence_begins_where_no_row_was_missed_whoever_answers_the_same(spark: SparkSession) -> None:
    """The silence is answered up to 60 s; a longer window over the same rows needs nothing from before it."""
    clock = ManualClock(START)
    with open_bed(spark, clock) as bed:
        clock.advance("20 s")
        bed.feed("s", [row(1), row(19)])
        clock.advance("50 s")
        assert bed.heartbeat("s")  # watermark 67
        entered = bed.query("long", "SELECT count(*) AS n FROM s [RANGE 30 s SLIDE 10 s]")
        other = bed.query("other", "SELECT sum(v) AS n FROM s [RANGE 30 s SLIDE 10 s]")
        assert entered.first_end_us == other.first_end_us == (bed.epoch.timestamp() + 50) * 1_000_000
        bed.feed("s", [row(45), row(68), row(82)])  # the first one is late, and in a window that is not final
        assert bed.timeline("long") == [(50, 0), (60, 0), (70, 2), (80, 1)]


def test_a_heartbeat_never_goes_past_the_clock_less_the_lateness(spark: SparkSession) -> None:
    clock = ManualClock(START)
    with open_bed(spark, clock) as bed:
        clock.advance("5 s")
        bed.feed("s", [row(14)])  # ahead of the clock, within what is allowed: watermark 12
        clock.advance("10 s")
        assert bed.heartbeat("s")
        assert bed.engine.stream("s").pipeline.progress.clock.watermark_us == clock() - 2_000_000


def test_rows_after_a_heartbeat_are_judged_by_it(spark: SparkSession) -> None:
    clock = ManualClock(START)
    with open_bed(spark, clock) as bed:
        clock.advance("20 s")
        bed.feed("s", [row(1), row(19)])
        clock.advance("30 s")
        assert bed.heartbeat("s")  # watermark 47
        bed.feed("s", [row(25), row(46), row(48)])
        assert bed.counts("s") == Counts(ingested=5, on_time=3, late=2)
        assert bed.timeline("q")[-1] == (40, 0)
        clock.advance("20 s")
        bed.feed("s", [row(60)])
        assert bed.timeline("q")[-1] == (50, 2)  # the late row of 46 entered a window that was not final


def test_a_clock_that_is_set_back_does_not_move_the_watermark(spark: SparkSession) -> None:
    clock = ManualClock("2026-01-05 01:00:00")
    with open_bed(spark, clock) as bed:
        bed.feed("s", [row(1), row(19)])
        clock.set("2026-01-05 00:10:00")
        assert not bed.heartbeat("s")
        clock.advance("10 s")
        assert bed.heartbeat("s")  # by ten seconds, not by minus fifty minutes
        assert bed.timeline("q") == [(10, 1), (20, 1)]


def test_a_clock_that_is_set_forward_counts_as_no_silence(spark: SparkSession) -> None:
    clock, steady = ManualClock("2026-01-05 01:00:00"), ManualClock("2026-01-05 01:00:00")
    with open_bed(spark, clock) as bed:
        bed.engine.stream("s").pipeline.steady = steady
        bed.feed("s", [row(1), row(19)])
        clock.advance("1 h")
        steady.advance("1 s")
        assert not bed.heartbeat("s")
        clock.advance("9 s")
        steady.advance("9 s")
        assert bed.heartbeat("s")  # ten seconds went by, whatever the clock says
        assert bed.timeline("q") == [(10, 1), (20, 1)]


def test_a_restart_repeats_no_heartbeat_and_counts_the_silence_anew(spark: SparkSession, tmp_path: Path) -> None:
    clock = ManualClock(START)
    clock.advance("20 s")
    with open_bed(spark, clock, tmp_path) as bed:
        bed.feed("s", [row(1), row(19)])
        clock.advance("10 s")
        assert bed.heartbeat("s")
        said = bed.timeline("q")
    clock.advance("1 h")  # the time that nobody ran: rows may wait in the source
    with open_bed(spark, clock, tmp_path) as bed:
        assert not bed.heartbeat("s")
        assert bed.timeline("q") == said
        bed.feed("s", [row(28), row(31)])
        assert bed.counts("s") == Counts(ingested=4, on_time=4)


def test_without_idle_or_rows_there_is_no_heartbeat(spark: SparkSession) -> None:
    clock = ManualClock(START)
    with open_bed(spark, clock) as bed:
        clock.advance("1 h")
        assert not bed.heartbeat("s")
    with TestBed(spark, clock=clock) as bed:
        bed.stream("s", "ts TIMESTAMP, v INT")
        bed.feed("s", [row(1)])
        clock.advance("1 h")
        assert not bed.heartbeat("s")


def silent_for(spark: SparkSession, steps: list[int], state: Path, *, restart: bool = False) -> tuple[list[Any], int]:
    """Let a stream be silent step by step; return what a query without groups said, and how often that was reported."""
    clock, reports = ManualClock(START), 0
    bed = TestBed(spark, clock=clock, state=state)
    bed.stream("s", "ts TIMESTAMP, v INT", idle="1 s")
    bed.query("q", "SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 10 ms]")
    bed.query("groups", "SELECT v, count(*) AS n FROM s [RANGE 1 s SLIDE 10 ms] GROUP BY v")
    bed.feed("s", [row(0)])
    for step in steps:
        clock.advance(step)
        bed.heartbeat("s")
        if restart:
            reports += len(bed.reports("s"))
            bed.close()
            bed = TestBed(spark, clock=clock, state=state)
            bed.engine.stream("s")
    clock.advance(1)
    bed.feed("s", [row(sum(steps) + 0.5)])
    bed.flush()
    status = {query["query"]: query for query in bed.engine.status()["queries"]}
    assert status["q"]["skipped"] == (sum(steps) + 0.5 - 1) * 100 - 10_000
    assert status["groups"]["skipped"] == 0
    found, reports = bed.timeline("q"), reports + len(bed.reports("s"))
    bed.close()
    return found, reports


def test_a_silence_is_answered_alike_however_it_is_cut_and_reported_once(spark: SparkSession, tmp_path: Path) -> None:
    #   0 s            1 s                  101 s                  600.5 s
    #   • 100 windows  │ 10,000 empty ones  │ skipped, told once   • 100 windows
    whole, reports = silent_for(spark, [600], tmp_path / "whole")
    assert [n for _, n in whole] == [1] * 100 + [0] * 10_000 + [1] * 100
    assert reports == 1
    for name, steps, restart in (("ten", [60] * 10, False), ("twelve", [50] * 12, True)):
        assert silent_for(spark, steps, tmp_path / name, restart=restart) == (whole, 1)


def test_every_silence_is_counted_and_reported_on_its_own(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, v INT")
        bed.query("q", "SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]")
        for ts in (0, 20_000, 20_001, 45_000, 45_001):
            bed.feed("s", [row(ts)])
        assert sum(n == 0 for _, n in bed.timeline("q")) == 20_000
        assert [report.split(", ")[1].split(" ")[0] for report in bed.reports("s")] == ["9,999", "14,998"]
