"""Queries without a window over a stream that goes on: the past, streams of rows, subscriptions, expiry, changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import StateError, UnknownQuery, Unsupported, WrongType
from penstock.sinks.memory import MemorySink
from penstock.store.verifying import verify_state
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "ts TIMESTAMP, id BIGINT, v BIGINT"


def ids(bed: TestBed, query: str) -> list[int]:
    return [row["id"] for row in bed.answers(query)]


def ids_of(bed: TestBed, query: str, version: int) -> list[int]:
    return sorted(bed.engine.results(query, version=version)["id"].to_pylist())


def test_a_query_answers_from_the_next_batch_on_or_from_rows_that_are_kept(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        bed.stream("s", COLUMNS, retain_rows="1 h")
        bed.feed("s", [(1, 1, 5), (2, 2, 6)])
        told = bed.query("now", "SELECT id FROM s WHERE v > 4")
        past = bed.query("then", "SELECT id FROM s WHERE v > 4 WITH (from = 'beginning')")
        later = bed.query("since", "SELECT id FROM s WITH (from = '2026-01-05 00:00:02')")
        assert str(told) == 'query "now" answers each row that it takes: from the next batch on'
        assert "the past" in str(past)
        assert later.first_window is None
        assert (ids(bed, "now"), ids(bed, "then"), ids(bed, "since")) == ([], [1, 2], [2])
        bed.feed("s", [(3, 3, 7), (4, 4, 1)])
        assert (ids(bed, "now"), ids(bed, "then"), ids(bed, "since")) == ([3], [1, 2, 3], [2, 3, 4])


def test_the_past_is_answered_once_across_restarts(spark: SparkSession, tmp_path: Path) -> None:
    def opened() -> TestBed:
        return TestBed(spark, state=tmp_path / "state")

    with opened() as bed:
        bed.stream("s", COLUMNS, retain_rows="1 h")
        bed.feed("s", [(1, 1, 5)])
        bed.query("q", "SELECT id FROM s WITH (from = 'beginning')")
        bed.feed("s", [(2, 2, 5)])
    with opened() as bed:
        bed.feed("s", [(3, 3, 5)])
        assert ids(bed, "q") == [1, 2, 3]


def test_rows_are_a_stream_that_feeds_windows_and_other_queries(spark: SparkSession, tmp_path: Path) -> None:
    def opened() -> TestBed:
        return TestBed(spark, state=tmp_path / "state")

    with opened() as bed:
        bed.stream("s", COLUMNS, lateness="5 s")
        with bed.working():
            bed.engine.execute(
                "CREATE STREAM some AS SELECT id, v FROM s WHERE v > 4; "
                "CREATE STREAM more AS SELECT ts, id FROM some WHERE v > 5; "
                "CREATE QUERY n AS SELECT count(*) AS n FROM more [RANGE 10 s SLIDE 10 s]; "
                "CREATE QUERY each AS SELECT id FROM more"
            )
        bed.feed("s", [(1, 1, 6), (9, 2, 5), (4, 3, 7)])
        bed.feed("s", [(30, 4, 9), (5, 5, 8)])
    with opened() as bed:
        bed.feed("s", [(31, 6, 8), (10, 7, 9), (40, 8, 1)])
        assert [(row["id"], row["late"]) for row in bed.answers("each")] == [
            (1, False), (3, False), (5, False), (4, False), (7, True), (6, False)
        ]  # fmt: skip
        bed.flush()
        assert [n for _, n in bed.timeline("n")] == [3, 0, 0, 2]
        assert (bed.counts("some").late, bed.counts("more").late) == (1, 1)
        assert bed.engine.status()["streams"][0]["law_holds"]


def test_an_output_called_ts_must_be_the_event_time_of_a_stream(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        bed.stream("s", "at TIMESTAMP, ts TIMESTAMP, v INT", time="at")
        with pytest.raises(Exception, match='an output is called "ts"'):
            bed.engine.execute("CREATE STREAM t AS SELECT ts, v FROM s")


def test_a_subscription_goes_on_from_its_place(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path / "state") as bed:
        bed.stream("s", COLUMNS)
        bed.query("q", "SELECT id FROM s WHERE v > 4")
        bed.feed("s", [(3, 1, 5), (1, 2, 5)])
        bed.feed("s", [(3, 3, 0)])
        bed.feed("s", [(4, 4, 5)])
        seen = bed.engine.subscribe("q")
        assert [table["id"].to_pylist() for table in seen] == [[2, 1], [4]]
        place = seen.place
        assert list(bed.engine.subscribe("q", after=place)) == []
        assert [t["id"].to_pylist() for t in bed.engine.subscribe("q", after=(0, 0))] == [[1], [4]]
    with TestBed(spark, state=tmp_path / "state") as bed:
        bed.feed("s", [(5, 5, 9)])
        assert [t["id"].to_pylist() for t in bed.engine.subscribe("q", after=place)] == [[5]]
        closed = bed.engine.subscribe("q")
        closed.close()
        assert list(closed) == []


def test_rows_expire_when_their_query_keeps_them_no_longer(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.batch_taking.COMPACTED_EVERY", 1)
    with TestBed(spark) as bed:
        bed.stream("s", COLUMNS)
        bed.query("short", "SELECT id FROM s WITH (keep = '10 s')")
        bed.query("usual", "SELECT id FROM s WHERE v = 1")
        bed.feed("s", [(0, 1, 1)])
        bed.feed("s", [(60, 2, 2)])
        assert (ids(bed, "short"), ids(bed, "usual")) == ([2], [1])
        bed.feed("s", [(4_000, 3, 1)])
        bed.feed("s", [(4_001, 4, 2)])
        assert (ids(bed, "short"), ids(bed, "usual")) == ([3, 4], [3])
        rows = bed.engine.stream("s").pipeline.continuous.rows
        assert [commit.number for commit in rows.commits()] == [2, 3]
        with pytest.raises(StateError, match="kept no longer"):
            list(bed.engine.subscribe("short", after=(0, 0)))
        assert [i for table in bed.engine.subscribe("short") for i in table["id"].to_pylist()] == [3, 4]


def test_an_altered_query_answers_anew_from_the_next_batch_on(spark: SparkSession) -> None:
    sink = MemorySink()
    with TestBed(spark, sinks=[sink]) as bed:
        bed.stream("s", COLUMNS)
        bed.query("q", "SELECT id FROM s WHERE v = 1")
        bed.feed("s", [(1, 1, 1), (2, 2, 2)])
        bed.engine.alter_query("q", "SELECT id FROM s WHERE v = 2")
        bed.feed("s", [(3, 3, 1), (4, 4, 2)])
        assert ids(bed, "q") == [1, 4]
        bed.engine.alter_query("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        bed.feed("s", [(5, 5, 1), (20, 6, 2)])
        assert [row["n"] for row in bed.answers("q")] == [0]  # the first window that begins after the change
        bed.engine.drop_query("q")
        bed.feed("s", [(21, 7, 1)])
        bed.engine.streams.wait_for_sinks()
        tables = [table for table in sink.answers("q") if "id" in table.column_names]
        found: list[Any] = [i for table in tables for i in table["id"].to_pylist()]
        assert found == [1, 4]


def test_what_has_no_meaning_for_rows_is_refused(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        bed.stream("s", COLUMNS)
        bed.query("q", "SELECT id FROM s")
        bed.query("w", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        for refused in (
            lambda: bed.engine.subscribe("w"),
            lambda: bed.engine.results("w", limit=1),
            lambda: bed.engine.backfill(["q"]),
            lambda: bed.engine.what_if("SELECT id FROM s"),
        ):
            with pytest.raises(Unsupported):
                refused()
        with pytest.raises(WrongType):
            bed.engine.results("q", since="yesterday")


def test_a_row_that_a_later_version_took_again_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path) as bed:
        bed.stream("s", COLUMNS, retain_rows="1 h")
        bed.query("q", "SELECT id FROM s WHERE v = 1")
        bed.feed("s", [(1, 1, 1), (2, 2, 2)])
        bed.feed("s", [(3, 3, 1)])
        bed.engine.alter_query("q", "SELECT id FROM s WHERE v >= 1 WITH (from = '2026-01-05 00:00:02')")
        assert ids(bed, "q") == [1, 2, 3]
        bed.feed("s", [(4, 4, 2)])
        assert ids(bed, "q") == [1, 2, 3, 4]
        bed.engine.alter_query("q", "SELECT id FROM s WHERE v = 2")
        bed.feed("s", [(5, 5, 2), (6, 6, 1)])
        assert ids(bed, "q") == [1, 2, 3, 4, 5]
        bed.engine.alter_query("q", "SELECT v AS w FROM s WHERE v = 2")
        bed.feed("s", [(7, 7, 2)])
        assert bed.engine.results("q").column_names[4:] == ["w"]
        assert [ids_of(bed, "q", number) for number in (1, 2, 3)] == [[1, 3], [2, 3, 4], [5]]
        every = bed.engine.results("q", version="all")
        assert every.column_names[4:] == ["version", "id", "w"]
        told = [(row["version"], row["id"], row["w"]) for row in every.to_pylist()]
        assert told[:2] == [(1, 1, None), (1, 3, None)]
        assert sorted(told[2:5]) == [(2, 2, None), (2, 3, None), (2, 4, None)]
        assert told[5:] == [(3, 5, None), (4, None, 2)]
        assert bed.engine.results("q", version="all", limit=2)["version"].to_pylist() == [3, 4]
        with pytest.raises(UnknownQuery, match="no version 9"):
            bed.engine.results("q", version=9)
        with pytest.raises(WrongType, match="not -1"):
            bed.engine.results("q", limit=-1)


def test_limit_and_since_choose_among_the_rows(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        bed.stream("s", COLUMNS)
        bed.query("q", "SELECT id FROM s")
        bed.feed("s", [(1, 1, 1), (2, 2, 2)])
        bed.feed("s", [(3, 3, 1), (4, 4, 2)])
        assert bed.engine.results("q", limit=3)["id"].to_pylist() == [2, 3, 4]
        assert bed.engine.results("q", since="2026-01-05 00:00:03")["id"].to_pylist() == [3, 4]


def test_a_python_function_that_fails_pauses_its_query_alone(spark: SparkSession) -> None:
    def odd(v: int) -> bool:
        if v == 3:
            raise ValueError("three")
        return v % 2 == 1

    with TestBed(spark) as bed:
        bed.stream("s", COLUMNS)
        bed.engine.create_function("odd", odd)
        bed.query("where", "SELECT id FROM s WHERE odd(v)")
        bed.query("guarded", "SELECT id FROM s WHERE v <> 3 AND odd(v)")
        bed.query("answer", "SELECT id, odd(v) AS o FROM s WHERE v < 9")
        bed.query("other", "SELECT id FROM s WHERE v > 2")
        bed.feed("s", [(1, 1, 1), (2, 2, 2)])
        bed.feed("s", [(3, 3, 3), (4, 4, 5)])
        bed.feed("s", [(5, 5, 7)])
        assert (ids(bed, "where"), ids(bed, "answer")) == ([1], [1, 2])
        assert (ids(bed, "guarded"), ids(bed, "other")) == ([1, 4, 5], [3, 4, 5])
        assert "three" in (bed.paused("where") or "")
        assert "three" in (bed.paused("answer") or "")
        bed.engine.resume_query("where")
        bed.feed("s", [(6, 6, 9)])
        assert ids(bed, "where") == [1, 6]


@pytest.mark.parametrize("select", ["SELECT id FROM s", "SELECT count(*) AS n FROM s [RANGE 9 s SLIDE 9 s]"])
def test_a_query_that_was_resumed_is_not_shown_as_paused_after_a_restart(
    spark: SparkSession, tmp_path: Path, select: str
) -> None:
    with TestBed(spark, state=tmp_path) as bed:
        bed.stream("s", COLUMNS)
        bed.query("failed", f"{select} WHERE 10 / v > 1")
        bed.query("stopped", f"{select} WHERE v < 9")
        bed.feed("s", [(1, 1, 0)])
        assert "BY_ZERO" in (bed.paused("failed") or "")
        bed.engine.pause_query("stopped")
        bed.feed("s", [(2, 2, 1)])
        for name in ("failed", "stopped"):
            bed.engine.resume_query(name)
    with TestBed(spark, state=tmp_path) as bed:
        assert (bed.paused("failed"), bed.paused("stopped")) == (None, None)
        bed.feed("s", [(20, 3, 1)])
        assert all(bed.answers(name) for name in ("failed", "stopped"))


def test_a_column_that_could_not_be_computed_fails_those_who_read_it(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = ["2026-01-05 00:00:01,1,4", "2026-01-05 00:00:02,2,x", "2026-01-05 00:00:03,3,6"]
    (tmp_path / "in" / "a.csv").write_text("\n".join(lines) + "\n")
    with TestBed(spark) as bed:
        bed.engine.execute(
            "CREATE STREAM s (ts TIMESTAMP, id INT, t STRING, v INT GENERATED ALWAYS AS (CAST(t AS INT))) USING csv "
            f"OPTIONS (path = '{tmp_path / 'in'}') WATERMARK FOR ts"
        )
        bed.query("reads", "SELECT id FROM s WHERE v > 3")
        bed.query("answers", "SELECT id, v FROM s")
        bed.query("avoids", "SELECT id, v FROM s WHERE id <> 2")
        bed.query("other", "SELECT id, t FROM s")
        with bed.working():
            bed.engine.process_available()
        assert (ids(bed, "reads"), ids(bed, "answers")) == ([], [])
        assert (ids(bed, "avoids"), ids(bed, "other")) == ([1, 3], [1, 2, 3])
        assert "column `v`" in (bed.paused("reads") or "")
        assert bed.paused("avoids") is None


def test_rows_that_are_gone_from_the_state_folder_are_missed(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path / "state") as bed:
        bed.stream("s", COLUMNS)
        bed.query("q", "SELECT id FROM s")
        bed.feed("s", [(1, 1, 1)])
    assert verify_state(tmp_path / "state").sound
    shutil.rmtree(tmp_path / "state" / "taken" / "s" / "000000000000")
    assert not verify_state(tmp_path / "state").sound
    with TestBed(spark, state=tmp_path / "state") as bed, pytest.raises(StateError, match="names its rows"):
        bed.engine.stream("s")


def test_figures_of_queries_add_up_to_those_of_the_stream(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        bed.stream("s", COLUMNS)
        bed.query("some", "SELECT id FROM s WHERE v > 4")
        bed.query("same", "SELECT v FROM s WHERE v > 4")
        bed.query("none", "SELECT id FROM s WHERE v > 100")
        bed.query("window", "SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]")
        bed.feed("s", [(1, 1, 5), (2, 2, 6), (3, 3, 1)])
        bed.feed("s", [(4, 4, 7)])
        found = bed.engine.metrics()
        assert [found.query(name).rows for name in ("some", "same", "none", "window")] == [3, 3, 0, 0]
        assert [found.query(name).deadline_s for name in ("some", "window")] == [None, 1.0]
        some, same, none = (found.query(name) for name in ("some", "same", "none"))
        assert some.bytes_sent == same.bytes_sent > none.bytes_sent == 0
        assert some.seconds.job == pytest.approx(same.seconds.job)
        assert some.seconds.job > none.seconds.job > 0
        [stream] = found.streams
        for step in ("job", "commit"):
            shares = sum(getattr(one.seconds, step) for one in found.queries) + getattr(stream.unshared, step)
            assert shares == pytest.approx(getattr(stream.seconds, step))
        assert sum(one.bytes_sent for one in found.queries) + stream.unshared_bytes == pytest.approx(stream.bytes_sent)


def test_small_folders_of_rows_are_put_together_while_the_stream_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.batch_taking.COMPACTED_EVERY", 4)
    sink = MemorySink()
    with TestBed(spark, state=tmp_path / "state", sinks=[sink]) as bed:
        bed.stream("s", COLUMNS)
        bed.query("q", "SELECT id FROM s WHERE v > 4")
        for number in range(14):
            bed.feed("s", [(number, number, 5 + number % 2), (number, -number, 1)])
        assert ids(bed, "q") == list(range(14))
        assert bed.engine.results("q", limit=3)["id"].to_pylist() == [11, 12, 13]
        bed.engine.streams.wait_for_sinks()
        assert sum(table.num_rows for table in sink.answers("q")) == 14
    folders = [path for path in (tmp_path / "state" / "taken" / "s").iterdir() if path.is_dir()]
    assert 0 < len(folders) < 14
    assert verify_state(tmp_path / "state").sound
    with TestBed(spark, state=tmp_path / "state") as bed:
        assert ids(bed, "q") == list(range(14))
