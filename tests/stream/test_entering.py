"""New queries say from when on they answer, and answer at once what is stored, kept or can be read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import NotStored, UnknownQuery
from penstock.testing import ManualClock
from tests.stream.feeding import COUNT, open_bed, rows, seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_query_without_rows_before_it_begins_with_the_first_window(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        entered = bed.query("q", COUNT)
        assert (entered.first_end_us, entered.first_window) == (None, None)
        assert str(entered) == 'query "q" answers from the first window on: no row has come yet'


def test_what_is_not_stored_begins_with_the_first_window_after_what_was_seen(spark: SparkSession) -> None:
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


@pytest.mark.parametrize("strategy", ["shared paired", "unshared paired", "fragments"])
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
        bed.engine.release()  # as if the process had died
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


@pytest.mark.parametrize("option", ["retain = '1 h'", "late = 'revise', revise_for = '1 h'"])
def test_a_query_that_keeps_more_does_not_bring_back_what_is_gone(spark: SparkSession, option: str) -> None:
    with open_bed(spark) as bed:
        bed.query("old", COUNT)
        bed.feed("s", rows(*range(0, 95)))
        bed.query("keeper", f"{COUNT} WITH ({option})")
        entered = bed.query("long", "SELECT count(*) AS n FROM s [RANGE 30 s SLIDE 10 s]")
        assert seconds(entered.first_end_us) == 120  # partials since 90 are there, no others
        with pytest.raises(NotStored):
            bed.ask("SELECT count(*) AS n FROM s [RANGE 30 s]")
        bed.feed("s", rows(*range(95, 131)))
        assert bed.timeline("long") == [(120, 30), (130, 30)]


def test_a_query_that_asks_for_time_before_the_first_row_begins_with_it(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        entered = bed.query("q", f"{COUNT} WITH (from = '2020-01-01')")
        assert entered.first_end_us is None
        bed.query("later", f"{COUNT} WITH (from = '2026-01-05 00:00:15')")
        bed.feed("s", rows(3, 31))
        assert bed.timeline("q") == [(10, 1), (20, 0), (30, 0)]
        assert bed.timeline("later") == [(30, 0)]


def test_the_first_window_of_a_backfill_holds_the_first_row(spark: SparkSession) -> None:
    with open_bed(spark, retain_rows="1 h") as bed:
        bed.query("q", "SELECT count(*) AS n FROM s [RANGE 1 MIN SLIDE 1 MIN]")
        bed.feed("s", rows(45, 70))
        bed.query("fine", f"{COUNT} WITH (from = 'beginning')")
        assert bed.timeline("fine") == [(50, 1), (60, 0), (70, 0)]


def test_lifetimes_of_two_streams_end_once_each(spark: SparkSession) -> None:
    clock = ManualClock("2026-01-05 01:00:00")
    with open_bed(spark, clock=clock) as bed:
        bed.stream("t", "ts TIMESTAMP, v INT")
        for number in range(3):
            bed.query(f"s{number}", f"{COUNT} WITH (lifetime = '1 min')")
            bed.query(f"t{number}", f"{COUNT.replace('FROM s', 'FROM t')} WITH (lifetime = '1 min')")
        clock.advance("2 min")
        bed.feed("s", rows(1))
        bed.feed("t", [{"ts": 1, "v": 1}])
        assert bed.engine.catalog.query_names() == []


def test_a_query_on_a_stream_that_has_ended_is_told_so(spark: SparkSession) -> None:
    with open_bed(spark, retain_rows="1 h") as bed:
        bed.query("q", COUNT)
        bed.feed("s", rows(1, 12))
        bed.flush()
        entered = bed.query("late", f"{COUNT} WITH (from = 'beginning')")
        assert (entered.first_end_us, entered.why) == (None, "the stream has ended")
        assert bed.timeline("late") == []
