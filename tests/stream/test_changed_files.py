"""Files that were written again since they were read: the past is refused with their names, or taken as it is now."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.control.requests import Request
from penstock.control.serving import answered
from penstock.errors import LanguageError, SourceError
from penstock.spark.sources.file_versions import LOG, Look, changed_files, note, noted, remote_look
from tests.stream.feeding import file_engine, found, put, sums

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.engine import Engine

SUM = "SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]"
PAST = "SELECT sum(w) AS x FROM s [RANGE 10 s SLIDE 10 s] WITH (from = 'beginning'{})"


def refused(engine: Engine, named: str) -> str:
    """Ask for the past in every way, and see that each names the file and changes nothing."""
    version, messages = engine.catalog.version, set[str]()
    ways = (
        lambda: engine.create_query("late", PAST.format("")),
        lambda: engine.alter_query("young", PAST.format("")),
        lambda: engine.execute(f"CREATE STREAM answers AS {PAST.format('')}"),
        lambda: engine.backfill(["young"]),
        lambda: answered(engine, Request(1, "backfill", {"queries": ["young"], "since": "2026-01-05 00:00:05"})),
    )
    for way in ways:
        with pytest.raises(SourceError, match=named) as raised:
            way()
        messages.add(str(raised.value))
    assert engine.catalog.version == version
    [message] = messages
    return message


def test_a_file_that_was_written_again_is_named_and_nothing_changes(interpreted: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    put(source, 0, range(0, 25))
    put(source, 1, range(25, 47))
    with file_engine(interpreted, tmp_path) as engine:
        engine.create_query("live", SUM)
        engine.process_available()
        engine.create_query("young", "SELECT sum(w) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        put(source, 2, range(47, 62))
        engine.process_available()
        whole, path = (source / "001.parquet").read_bytes(), source / "001.parquet"
        put(source, 1, range(25, 30))
        os.utime(path, (1_800_000_000, 1_800_000_000))
        message = refused(engine, r"is not as it was read: \S*/source/001\.parquet has changed")
        size = path.stat().st_size
        assert "2023-11-14T22:13:21.000000Z when it was read, and at 2027-01-15T08:00:00.000000Z since" in message
        assert f"it had {len(whole):,} bytes, and has {size:,}\n" in message
        assert "changed_files = 'accept'" in message
        assert "--accept-changed-files" in message
        put(source, 1, range(25, 30))  # at the same time, with another size
        refused(engine, r"/source/001\.parquet has changed")
        path.unlink()
        first = (source / "000.parquet").rename(tmp_path / "000.parquet")
        assert "000.parquet is gone, and 1 more" in refused(engine, r"is incomplete: \S*/source/000\.parquet is gone")
        first.rename(source / "000.parquet")
        path.write_bytes(whole)  # at another time, and with the same content: that is what was read
        assert engine.backfill(["young"]) == {"young": 5}
        put(source, 3, range(62, 71))
        engine.process_available()
        assert found(engine, "live") == sums(range(10, 80, 10))
        assert found(engine, "young") == sums(range(10, 80, 10), 2)


def test_files_that_have_changed_are_taken_as_they_are_if_that_is_asked_for(
    interpreted: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    put(source, 0, range(0, 31))
    with file_engine(interpreted, tmp_path) as engine:
        engine.create_query("live", SUM)
        engine.process_available()
        put(source, 0, range(10, 31))
        engine.create_query("late", PAST.format(", changed_files = 'accept'"))
        engine.create_query("count", "SELECT count(w) AS x FROM s [RANGE 10 s SLIDE 10 s] WHERE v > 0")
        put(source, 1, range(31, 51))
        engine.process_available()
        body = {"queries": ["count"], "since": "beginning"}
        with pytest.raises(SourceError, match=r"000\.parquet has changed"):
            answered(engine, Request(1, "backfill", body))
        accepted = Request(1, "backfill", body | {"accept_changed_files": True})
        assert answered(engine, accepted) == {"windows": {"count": 3}}
        assert found(engine, "live") == sums(range(10, 60, 10))
        assert found(engine, "late") == sums(range(20, 60, 10), 2)  # the first window of what is there now
        assert found(engine, "count") == [(end, 10) for end in range(20, 60, 10)]
    with file_engine(interpreted, tmp_path) as engine:
        assert found(engine, "late") == sums(range(20, 60, 10), 2)


def test_accepting_changed_files_needs_a_past(interpreted: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "source", 0, range(0, 3))
    with file_engine(interpreted, tmp_path) as engine:
        with pytest.raises(LanguageError, match="changed_files needs from"):
            engine.create_query("q", SUM + " WITH (changed_files = 'accept')")
        with pytest.raises(LanguageError, match="takes 'refuse' or 'accept'"):
            engine.create_query("q", SUM + " WITH (from = 'beginning', changed_files = 'ignore')")


# -- what is noted of files ------------------------------------------------------------------------------------------


def test_what_is_noted_of_files_survives_a_line_that_was_cut_short(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("two")
    note(tmp_path, 0, [str(tmp_path / "a"), "s3://bucket/elsewhere", str(tmp_path / "nowhere")])
    with (tmp_path / LOG).open("ab") as log:
        log.write(b'0123456789abcdef {"batch": 1, "fil')
    note(tmp_path, 2, [str(tmp_path / "b")])
    assert {batch: list(files) for batch, files in noted(tmp_path).items()} == {
        0: [str(tmp_path / "a")],
        2: [str(tmp_path / "b")],
    }
    assert noted(tmp_path / "elsewhere") == {}


def test_files_are_told_by_sparks_time_where_nothing_else_was_noted(interpreted: SparkSession, tmp_path: Path) -> None:
    """As in a state folder of an older version, or on a filesystem that is not this machine's."""
    for name in ("same", "touched"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1_700_000_000.123456, 1_700_000_000.123456))
    os.utime(tmp_path / "touched", (1_700_000_000.125, 1_700_000_000.125))
    paths = [f"file://{tmp_path}/{name}" for name in ("same", "touched")]
    entries = [{"path": path, "timestamp": 1_700_000_000_123} for path in paths]
    [changed] = changed_files(interpreted, tmp_path, entries)
    assert (changed.path, changed.then) == (str(tmp_path / "touched"), Look(1_700_000_000_123))
    assert remote_look(interpreted, paths[0]) == Look(1_700_000_000_123, 4)
    assert remote_look(interpreted, f"file://{tmp_path}/nowhere%20else") is None
