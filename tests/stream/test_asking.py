"""One-time questions are answered as of the watermark, for a window that the answer names, or refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import NotStored, PenstockError, QueryFailed
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = datetime(2026, 1, 5, tzinfo=UTC)


def rows(*seconds: float) -> list[dict[str, Any]]:
    return [{"ts": ts, "k": "ab"[int(ts) % 2], "v": int(ts)} for ts in seconds]


def open_bed(spark: SparkSession, **options: Any) -> TestBed:
    bed = TestBed(spark)
    bed.stream("s", "ts TIMESTAMP, k STRING, v INT", **options)
    return bed


def asked(bed: TestBed, text: str) -> list[tuple[Any, ...]]:
    found = [tuple(row.values()) for row in bed.ask(text)]
    return [((start - EPOCH).total_seconds(), (end - EPOCH).total_seconds(), *rest) for start, end, *rest in found]


def test_the_last_window_between_stored_edges_is_answered(spark: SparkSession) -> None:
    #   edges every 5 s; watermark 33: the last window of 10 s that is stored is 20 to 30
    with open_bed(spark) as bed:
        bed.query("q", "SELECT sum(v) AS x, avg(v) AS y FROM s [RANGE 20 s SLIDE 5 s]")
        bed.feed("s", rows(*range(0, 34)))
        assert asked(bed, "SELECT sum(v) AS x FROM s [RANGE 10 s]") == [(20, 30, sum(range(20, 30)))]
        assert asked(bed, "SELECT avg(v) AS x FROM s [RANGE 5 s]") == [(25, 30, 27.0)]
        assert asked(bed, "SELECT count(*) * 2 AS x FROM s [RANGE 15 s]") == [(15, 30, 30)]


def test_groups_and_predicates_are_answered_where_a_query_keeps_them(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("q", "SELECT k, max(v) AS x FROM s [RANGE 10 s SLIDE 5 s] WHERE v > 3 GROUP BY k")
        bed.feed("s", rows(*range(0, 24)))
        text = "SELECT k, max(v) AS x FROM s [RANGE 5 s] WHERE v > 3 GROUP BY k"
        assert asked(bed, text) == [(15, 20, "a", 18), (15, 20, "b", 19)]
        with pytest.raises(NotStored, match="cannot answer") as raised:
            bed.ask("SELECT k, max(v) AS x FROM s [RANGE 5 s] WHERE v > 4 GROUP BY k")
        assert "no query stores partials of these rows" in str(raised.value)


def test_what_is_missing_is_named(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        with pytest.raises(NotStored, match="no row yet"):
            bed.ask("SELECT count(*) FROM s [RANGE 5 s]")
        bed.query("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s]")
        bed.feed("s", rows(*range(0, 64)))
        for text, reason in (
            (
                "SELECT sum(v) FROM s [RANGE 5 s]",
                "keeps sum(v); its rows are not kept\nhint: Create a query",
            ),
            ("SELECT count(*) FROM s [RANGE 7 s]", "stored since 2026-01-05T00:00:55.000000Z only"),
            ("SELECT count(*) FROM s [RANGE 30 s]", "stored since 2026-01-05T00:00:55.000000Z only"),
        ):
            with pytest.raises(NotStored) as raised:
                bed.ask(text)
            assert reason in str(raised.value)


def test_kept_rows_answer_anything_up_to_the_watermark(spark: SparkSession) -> None:
    with open_bed(spark, retain_rows="30 s") as bed:
        bed.feed("s", rows(*range(0, 64)))
        assert asked(bed, "SELECT sum(v) AS x FROM s [RANGE 7 s] WHERE v <> 60") == [(56, 63, sum(range(56, 63)) - 60)]
        assert asked(bed, "SELECT sum(v) AS x FROM s [RANGE 1 s] WHERE v < 0") == [(62, 63, None)]
        with pytest.raises(QueryFailed, match="failed on a row"):
            bed.ask("SELECT sum(1 / (v - 60)) AS x FROM s [RANGE 7 s]")
        bed.query("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s]")
        bed.feed("s", rows(64))
        assert asked(bed, "SELECT count(*) AS x FROM s [RANGE 2 s]") == [(62, 64, 2)]
        bed.feed("s", rows(*range(65, 74)))  # partials of the query end at 70
        assert asked(bed, "SELECT count(*) AS x FROM s [RANGE 5 s]") == [(68, 73, 5)]


def test_a_question_has_no_slide_and_changes_nothing(spark: SparkSession) -> None:
    with open_bed(spark, retain_rows="30 s") as bed:
        bed.query("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        bed.feed("s", rows(1, 12))
        with pytest.raises(PenstockError, match="SLIDE"):
            bed.ask("SELECT count(*) FROM s [RANGE 5 s SLIDE 5 s]")
        version = bed.engine.catalog.version
        bed.ask("SELECT max(v) FROM s [RANGE 5 s]")
        bed.feed("s", rows(22))
        assert bed.timeline("q") == [(10, 1), (20, 1)]
        assert bed.engine.catalog.version == version
