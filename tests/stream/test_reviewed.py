"""What careful reading found: floors, backfills, compaction, lifetimes and locks as they must be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import NotStored, SourceError
from penstock.store.commits import Counts
from penstock.stream import pipeline as pipelines
from penstock.testing import ManualClock, TestBed
from tests.stream.test_entering import file_engine, found, put, rows, seconds, sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"


def open_bed(spark: SparkSession, **options: Any) -> TestBed:
    declared = {name: options.pop(name) for name in ("retain_rows", "dedup") if name in options}
    bed = TestBed(spark, **options)
    bed.stream("s", "ts TIMESTAMP, k STRING, v INT", **declared)
    return bed


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


def test_a_backfill_that_goes_not_back_leaves_open_windows_whole(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    put(source, 0, range(0, 45))
    with file_engine(spark, tmp_path) as engine:
        engine.create_query("q", "SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        engine.process_available()
        assert engine.backfill(["q"], "2026-01-05 00:00:42") == {"q": 0}
        assert engine.backfill(["q"], "2020-01-01") == {"q": 0}
        put(source, 1, range(45, 61))
        engine.process_available()
        assert found(engine, "q") == sums(range(10, 70, 10))


def test_a_restart_after_compaction_answers_the_last_windows_from_whole_partials(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelines, "COMPACTED_EVERY", 1)
    monkeypatch.setattr("penstock.store.commits.FAN", 0)
    with open_bed(spark, state=tmp_path) as bed:
        bed.query("quiet", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] HAVING n < 5")
        for start in range(0, 50, 10):
            bed.feed("s", rows(*range(start, start + 10)))
        assert bed.timeline("quiet") == []
    with open_bed(spark, state=tmp_path) as bed:
        assert bed.timeline("quiet") == []


def test_keys_of_a_batch_that_failed_are_no_duplicates_later(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_bed(spark, dedup=["v"]) as bed:
        bed.query("q", COUNT)
        bed.feed("s", rows(1, 2))
        computing = bed.engine.stream("s").pipeline.computing
        run: Callable[..., Any] = computing.run

        def fail(*_: Any) -> Any:
            raise SourceError("a table is gone")

        monkeypatch.setattr(computing, "run", fail)
        with pytest.raises(SourceError):
            bed.feed("s", rows(3, 4), number=1)
        monkeypatch.setattr(computing, "run", run)
        bed.query("p", COUNT.replace("10 s", "5 s"))
        bed.feed("s", rows(3, 4, 11), number=1)
        assert bed.counts("s") == Counts(ingested=5, on_time=5)


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
        assert (entered.first_end_us, entered.why) == (None, "the stream has ended, and answers no more")
        assert bed.timeline("late") == []


def test_a_past_that_turns_out_unreadable_pauses_its_query_alone(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    put(source, 0, range(0, 25))
    with file_engine(spark, tmp_path) as engine:
        engine.create_query("steady", "SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        engine.process_available()
        whole = (source / "000.parquet").read_bytes()
        (source / "000.parquet").write_bytes(whole[: len(whole) // 2])
        engine.create_query("late", "SELECT max(w) AS x FROM s [RANGE 10 s SLIDE 10 s] WITH (from = 'beginning')")
        [late] = [q for q in engine.status()["queries"] if q["query"] == "late"]
        assert late["state"] == "paused"
        assert "past cannot be had" in late["why"]
        put(source, 1, range(25, 41))
        engine.process_available()
        assert found(engine, "steady") == sums(range(10, 50, 10))
        (source / "000.parquet").write_bytes(whole)
        engine.resume_query("late")
        assert engine.backfill(["late"]) == {"late": 3}  # window 40 ended while it was paused
        assert found(engine, "late") == [(10, 18), (20, 38), (30, 58)]
