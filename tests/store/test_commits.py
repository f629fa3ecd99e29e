"""Commits come back with their partials for as long as a window may need them; the last one always does."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import StateError
from penstock.store.arrow_files import arrow_file, read_record_within
from penstock.store.commits import Commit, Counts, DiskCommitLog, MemoryCommitLog, Paused, last_commit
from penstock.store.compaction import FAN
from penstock.store.files import checksum, write_record
from penstock.store.invalid import Invalid

FULL = Commit(
    number=0,
    batch=7,
    catalog_version=3,
    watermark_us=-5,
    last_us=10,
    first_us=None,
    clock_us=99,
    counts=Counts(ingested=15, on_time=7, corrected=4, late=2, invalid=1, duplicate=1),
    source='{"logOffset":4}',
    tables={"t#1": "v"},
    due={"1": ((10, 2, 12, 0),)},
    starts={"1": -(1 << 62)},
    next_ends={"1": 30, "2": None},
    paused={"2": Paused(1, 2, 3, "why")},
    attempts=(2,),
    edges={"0": [1, 2, 3]},
    ended=True,
    highest=10,
    invalid=Invalid(ahead=1, ahead_by_us=7, example="ts = `a` failed"),
    too_late={"1": 2},
)
NEW = (
    "invalid",
    "too_late",
    "kind",
    "judged_us",
    "first_ends",
    "resumed_ends",
    "backfilled",
    "answered",
    "checkpoint",
    "partials_sum",
    "covers",
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


def test_a_commit_with_partials_takes_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, synced = DiskCommitLog(tmp_path), list[str]()
    sync = os.fsync

    def noted(handle: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    for number in range(FAN + 1):
        log.append(commit(number, 10), partials(number))
    ours = [f"{number:012d}.arrow" for number in range(FAN + 1)]
    assert synced == [ours[0], tmp_path.name, *ours[1:FAN], ours[FAN], tmp_path.name]  # sixteen names are made at once
    synced.clear()
    log.append(commit(FAN + 1, None), pa.table({}))
    assert synced == [f".{FAN + 1:012d}.json.draft", tmp_path.name]


def test_the_oldest_version_is_that_of_the_first_commit_on_disk(tmp_path: Path) -> None:
    log = DiskCommitLog(tmp_path)
    assert log.first_version() is MemoryCommitLog().first_version() is None
    for number in range(40):
        log.append(replace(commit(number, number), catalog_version=100 + number, edges={}), partials(number))
        log.expire(number - 2)
        if number == 10:
            assert log.first_version() == 100  # a crash would bring the first one back
        log.compact()
        oldest = min(c.catalog_version for c, _ in DiskCommitLog(tmp_path).replay())
        assert log.first_version() == oldest
    assert oldest > 110


def test_a_commit_comes_back_as_it_was(tmp_path: Path) -> None:
    log = DiskCommitLog(tmp_path)
    assert log.last() is None
    log.append(FULL, partials(1))
    ((found, table),) = DiskCommitLog(tmp_path).replay()
    assert found == replace(FULL, partials_sum=found.partials_sum)
    assert table == partials(1)
    with pa.ipc.open_file(tmp_path / "000000000000.arrow") as reader:  # a plain Arrow file to all others
        assert reader.read_all() == partials(1)
    assert DiskCommitLog(tmp_path).last() == last_commit(tmp_path) == log.last() == found


def test_commits_are_replayed_oldest_first(tmp_path: Path) -> None:
    filled(tmp_path)
    assert replayed(tmp_path) == [(0, 0), (1, None), (2, 2), (3, 3)]


def kept(log: DiskCommitLog) -> list[tuple[int, int | None]]:
    return [(c.number, None if table is None else table["label"][0].as_py()) for c, table in log.replay()]


def test_what_no_window_needs_is_forgotten_but_for_the_last_commit(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.expire(10)  # a slice that starts at 10 is needed by windows from 10 on
    assert kept(log) == [(0, 0), (2, 2), (3, 3)]
    log.expire(25)
    assert kept(log) == [(2, 2), (3, 3)]
    log.expire(100)
    assert kept(log) == [(3, 3)]
    assert log.last() == DiskCommitLog(tmp_path).last()


def test_a_log_without_commits_has_nothing_to_forget(tmp_path: Path) -> None:
    log = DiskCommitLog(tmp_path)
    log.expire(10)
    log.compact()
    assert log.last() is None
    assert last_commit(tmp_path) is None


def test_a_file_that_was_not_written_to_its_end_was_never_committed(tmp_path: Path) -> None:
    filled(tmp_path)
    path = tmp_path / "000000000003.arrow"
    content = path.read_bytes()
    unwritten = [content[:length] for length in range(0, len(content), 7)]  # the process died …
    for place in range(0, len(content), 512):  # … or the machine did, and pages reach a disk in any order
        unwritten.append(content[:place] + bytes(len(content[place : place + 512])) + content[place + 512 :])
    for torn in (one for one in unwritten if one != content):
        path.write_bytes(torn)
        last = last_commit(tmp_path)
        assert last is not None
        assert last.number == 2
        assert replayed(tmp_path) == [(0, 0), (1, None), (2, 2)]
        assert not path.exists()
    DiskCommitLog(tmp_path).append(commit(3, 20), partials(33))
    assert replayed(tmp_path)[-1] == (3, 33)


def test_a_file_that_was_not_written_to_its_end_is_damage_if_another_commit_follows(tmp_path: Path) -> None:
    filled(tmp_path)
    os.truncate(tmp_path / "000000000002.arrow", 100)
    with pytest.raises(StateError, match=r"000000000002.arrow is missing or damaged: it holds no whole commit"):
        DiskCommitLog(tmp_path)


def test_names_made_for_commits_to_come_outlive_compaction_and_no_restart(tmp_path: Path) -> None:
    log = DiskCommitLog(tmp_path)
    for number in range(FAN + 2):
        log.append(replace(commit(number, number), edges={}), partials(number))
        log.compact()
    empty = [path.name for path in sorted(tmp_path.iterdir()) if not path.stat().st_size]
    assert empty == [f"{number:012d}.arrow" for number in range(FAN + 2, 2 * FAN)]
    assert [number for number, _ in replayed(tmp_path)] == [FAN - 1, FAN, FAN + 1]  # sixteen are together
    assert all(path.stat().st_size for path in tmp_path.iterdir())


def test_commits_whose_records_are_files_of_their_own_go_on(tmp_path: Path) -> None:
    for number in range(FAN + 1):  # as format 3 has them
        content = arrow_file(partials(number))
        (tmp_path / f"{number:012d}.arrow").write_bytes(content)
        record = replace(commit(number, number), edges={}, partials_sum=checksum(content)).to_record()
        write_record(tmp_path / f"{number:012d}.json", {**record, "shape": "alike"})
    (tmp_path / f"{FAN + 1:012d}.arrow").write_bytes(content)  # which no record has followed
    log = DiskCommitLog(tmp_path)
    assert kept(log) == [(number, number) for number in range(FAN + 1)]
    for number in range(FAN + 1, 2 * FAN + 3):
        log.append(replace(commit(number, number), edges={}), partials(number))
        log.compact()
    assert replayed(tmp_path) == kept(log)
    assert sum(table.num_rows for _, table in DiskCommitLog(tmp_path).replay() if table is not None) == 2 * FAN + 3


def test_a_newer_commit_is_refused_and_one_of_format_1_is_read(tmp_path: Path) -> None:
    filled(tmp_path)
    path = tmp_path / "000000000003.json"
    record = read_record_within(path.with_suffix(".arrow"))
    write_record(path, {**record, "format": 4})
    with pytest.raises(StateError, match="another version"):
        DiskCommitLog(tmp_path)
    old = {k: v for k, v in record.items() if k not in NEW and k != "shape"}
    counts = {k: v for k, v in record["counts"].items() if k not in ("corrected", "duplicate")}
    write_record(path, {**old, "format": 1, "counts": counts, "due": {"1": [10, 2]}})
    found = last_commit(tmp_path)
    assert found == replace(
        commit(3, 20), counts=Counts(15, 7, 2, 1), invalid=Invalid(), too_late={}, due={"1": ((10, 2),)}
    )


@pytest.mark.parametrize("wrong", [{"counts": {"ingested": 1, "odd": 2}}, {"due": 7}, {"number": None, "paused": []}])
def test_a_record_that_is_no_commit_is_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    filled(tmp_path)
    path = tmp_path / "000000000003.json"
    write_record(path, {**read_record_within(path.with_suffix(".arrow")), **wrong})
    with pytest.raises(StateError, match=r"000000000003.json is missing or damaged"):
        DiskCommitLog(tmp_path)


def test_counts_add_up_term_by_term() -> None:
    counts = Counts(10, 1, 2, 3, corrected=3, duplicate=1)
    assert counts.whole
    assert counts + counts == Counts(20, 2, 4, 6, corrected=6, duplicate=2)
    assert not Counts(10, 1, 2, 3).whole


def test_memory_keeps_the_last_commit_alone() -> None:
    log = MemoryCommitLog()
    log.append(FULL, partials(1))
    assert log.last() == FULL
    assert list(log.replay()) == []
