"""Commits and Spark's checkpoint go together or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import StateError
from penstock.store.checkpoints import check_checkpoint, checkpoint_id
from penstock.store.commits import Commit, Counts, DiskCommitLog

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"logOffset":7}'
LAST = Commit(9, 7, 1, 0, 0, 0, 0, Counts(), OFFSETS, checkpoint="7a6b")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Write the checkpoint of a stream whose batches 5 to 7 are done."""
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
        for number in (5, 6, 7):
            (tmp_path / log / str(number)).write_text(OFFSETS)
            (tmp_path / log / f".{number}.crc").write_text("crc")
    (tmp_path / "metadata").write_text('{"id":"7a6b"}')
    return tmp_path


def test_a_checkpoint_at_the_last_commit_is_taken(checkpoint: Path) -> None:
    assert checkpoint_id(checkpoint) == "7a6b"
    check_checkpoint(checkpoint, LAST, "s")
    (checkpoint / "commits" / "7").unlink()  # killed between our commit and Spark's
    check_checkpoint(checkpoint, LAST, "s")
    (checkpoint / "offsets" / "8").write_text(OFFSETS)  # planned, and not committed
    check_checkpoint(checkpoint, LAST, "s")
    check_checkpoint(checkpoint, replace(LAST, kind="heartbeat", checkpoint=None), "s")


def test_batches_that_came_another_way_need_none(tmp_path: Path) -> None:
    assert checkpoint_id(tmp_path / "none") is None
    check_checkpoint(tmp_path / "none", None, "s")
    check_checkpoint(tmp_path / "none", replace(LAST, source="", checkpoint=None), "s")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: shutil.rmtree(c), "there is no checkpoint at"),
        (lambda c: (c / "metadata").unlink(), "there is no checkpoint at"),
        (lambda c: (c / "metadata").write_text('{"id":"other"}'), "its id is other"),
        (lambda c: (c / "offsets" / "7").unlink(), "it does not know batch 7"),
        (
            lambda c: (c / "commits" / "8").write_text(OFFSETS),
            "it has read batch 8, but the last committed batch is 7",
        ),
    ],
)
def test_one_that_does_not_fit_is_refused(change: Callable[[Path], object], words: str, checkpoint: Path) -> None:
    change(checkpoint)
    with pytest.raises(StateError, match='the state of stream "s" and its Spark checkpoint do not belong') as raised:
        check_checkpoint(checkpoint, LAST, "s")
    assert words in (raised.value.detail or "")
    assert "Restore the whole state folder" in (raised.value.hint or "")


def test_a_checkpoint_without_commits_is_refused(checkpoint: Path) -> None:
    with pytest.raises(StateError, match="do not belong together") as raised:
        check_checkpoint(checkpoint, None, "s")
    assert raised.value.detail == "it has read batch 7, but there is no commit of it"


@pytest.mark.parametrize(("name", "text"), [("metadata", "{"), ("metadata", "[1]"), ("offsets/7", "v1\n{}")])
def test_a_damaged_one_is_named(name: str, text: str, checkpoint: Path) -> None:
    (checkpoint / name).write_text(text)
    with pytest.raises(StateError, match=f"{name} is missing or damaged"):
        check_checkpoint(checkpoint, LAST, "s")


def test_a_heartbeat_keeps_the_checkpoint_of_the_batch_before_it(tmp_path: Path) -> None:
    log = DiskCommitLog(tmp_path)
    log.append(replace(LAST, number=0), pa.table({}))
    log.append(replace(LAST, number=1, kind="heartbeat", checkpoint=None), pa.table({}))
    last = DiskCommitLog(tmp_path).last()
    assert last is not None
    assert (last.kind, last.checkpoint) == ("heartbeat", "7a6b")
