"""Rows of the past that the source still has: backfilled answers meet the live ones, or the past is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.errors import PenstockError, SourceError
from tests.stream.feeding import COUNT, file_engine, found, open_bed, put, rows, seconds, sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def spoil(path: Path, content: bytes) -> None:
    """Give a file of the same size and time another content, as a failing disk does."""
    seen = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def test_a_past_that_turns_out_unreadable_pauses_its_query_alone(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    put(source, 0, range(0, 25))
    with file_engine(spark, tmp_path) as engine:
        engine.create_query("steady", "SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        engine.process_available()
        whole = (source / "000.parquet").read_bytes()
        spoil(source / "000.parquet", b"\0" * len(whole))
        engine.create_query("late", "SELECT max(w) AS x FROM s [RANGE 10 s SLIDE 10 s] WITH (from = 'beginning')")
        [late] = [q for q in engine.status()["queries"] if q["query"] == "late"]
        assert late["state"] == "paused"
        assert "past is not available" in late["why"]
        put(source, 1, range(25, 41))
        engine.process_available()
        assert found(engine, "steady") == sums(range(10, 50, 10))
        spoil(source / "000.parquet", whole)
        engine.resume_query("late")
        assert engine.backfill(["late"]) == {"late": 3}  # window 40 ended while it was paused
        assert found(engine, "late") == [(10, 18), (20, 38), (30, 58)]
