"""Commits come back with their partials for as long as a window may need them; the last one always does."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import StateError
from penstock.store.commits import Commit, Counts, DiskCommitLog, MemoryCommitLog, Paused
from penstock.store.files import read_record, write_record

FULL = Commit(
    number=0,
    batch=7,
    catalog_version=3,
    watermark_us=-5,
    last_us=10,
    first_us=None,
    clock_us=99,
    counts=Counts(10, 7, 2, 1),
    source='{"logOffset":4}',
    tables={"t#1": "v"},
    due={"1": (10, 2)},
    starts={"1": -(1 << 62)},
    next_ends={"1": 30, "2": None},
    paused={"2": Paused(1, 2, 3, "why")},
    attempts=(2,),
    edges={"0": [1, 2, 3]},
    ended=True,
    highest=10,
)


def commit(number: int, highest: int | None) -> Commit:
    return replace(FULL, number=number, highest=highest)


def partials(value: int) -> pa.Table:
    return pa.table({"label": [value], "rows": [1]})


def filled(folder: Path) -> DiskCommitLog:
    """Commit four batches; the second has no partials."""
    log = DiskCommitLog(folder)
    for number, highest in enumerate((10, None, 30, 20)):
        log.append(commit(number, highest), partials(number) if highest is not None else pa.table({}))
    return log


def replayed(folder: Path) -> list[tuple[int, int | None]]:
    found = DiskCommitLog(folder).replay()
    return [(c.number, None if table is None else table["label"][0].as_py()) for c, table in found]


def test_a_commit_comes_back_as_it_was(tmp_path: Path) -> None:
    log = DiskCommitLog(tmp_path)
    assert log.last() is None
    log.append(FULL, partials(1))
    ((found, table),) = DiskCommitLog(tmp_path).replay()
    assert found == FULL
    assert table == partials(1)
    assert DiskCommitLog(tmp_path).last() == FULL


def test_commits_are_replayed_oldest_first(tmp_path: Path) -> None:
    filled(tmp_path)
    assert replayed(tmp_path) == [(0, 0), (1, None), (2, 2), (3, 3)]


def test_what_no_window_needs_is_deleted(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.expire(10)  # a slice that starts at 10 is needed by windows from 10 on
    assert replayed(tmp_path) == [(0, 0), (2, 2), (3, 3)]
    log.expire(25)
    assert replayed(tmp_path) == [(2, 2), (3, None)]
    log.expire(100)
    assert replayed(tmp_path) == [(3, None)]
    assert [p.name for p in tmp_path.iterdir()] == ["000000000003.json"]
    assert DiskCommitLog(tmp_path).last() == commit(3, 20)


def test_partials_without_their_commit_were_never_committed(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "000000000003.json").unlink()  # as if the crash came between the two files
    assert replayed(tmp_path) == [(0, 0), (1, None), (2, 2)]
    DiskCommitLog(tmp_path).append(commit(3, 20), partials(33))
    assert replayed(tmp_path)[-1] == (3, 33)


def test_another_version_is_refused_and_damage_is_told(tmp_path: Path) -> None:
    filled(tmp_path)
    os.truncate(tmp_path / "000000000002.arrow", 40)
    with pytest.raises(StateError, match=r"000000000002.arrow is missing or damaged"):
        replayed(tmp_path)
    record = read_record(tmp_path / "000000000003.json")
    write_record(tmp_path / "000000000003.json", {**record, "format": 2})
    with pytest.raises(StateError, match="another version"):
        DiskCommitLog(tmp_path)


def test_memory_keeps_the_last_commit_alone() -> None:
    log = MemoryCommitLog()
    log.append(FULL, partials(1))
    assert log.last() == FULL
    assert list(log.replay()) == []
