"""A state file is there whole or not at all, and damage is told from absence of damage."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import StateError
from penstock.store.files import read_record, seal, unseal, write_record, write_whole
from penstock.store.folder import Owner, StateFolder

RECORDS = st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=9) | st.booleans())


def test_a_file_that_could_not_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "record"
    write_whole(path, lambda file: file.write(b"old"))

    def fail(file: BinaryIO) -> None:
        file.write(b"half of the ne")
        raise OSError(28, "No space left on device")

    with pytest.raises(StateError, match="No space left on device"):
        write_whole(path, fail)
    assert path.read_bytes() == b"old"


def test_a_folder_that_is_gone_is_a_state_error(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="nothing that was committed is lost"):
        write_record(tmp_path / "gone" / "record", {"a": 1})


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    record = {"é": [1, None, 2**70], "b": {"c": "\n\r\u2028"}}
    write_record(tmp_path / "record", record)
    assert read_record(tmp_path / "record") == record


@given(RECORDS, st.data())
def test_every_flipped_bit_is_noticed(record: dict[str, object], data: st.DataObject) -> None:
    line = bytearray(seal(record))
    assert line.count(b"\n") == 1
    assert unseal(bytes(line)) == record
    place = data.draw(st.integers(0, len(line) - 2))
    line[place] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ValueError, match=r"checksum|decode"):
        unseal(bytes(line))


def test_a_damaged_record_names_its_file(tmp_path: Path) -> None:
    write_record(tmp_path / "record", {"a": 1})
    os.truncate(tmp_path / "record", 20)
    with pytest.raises(StateError, match="record is missing or damaged"):
        read_record(tmp_path / "record")
    with pytest.raises(StateError, match="other is missing or damaged"):
        read_record(tmp_path / "other")


def test_a_folder_can_be_used_again_once_it_was_released(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    with pytest.raises(StateError, match="another engine"):
        StateFolder(tmp_path)
    folder.release()
    StateFolder(tmp_path).release()


def test_others_can_see_who_uses_a_folder(tmp_path: Path) -> None:
    assert StateFolder.owner(tmp_path / "nothing") is None
    folder = StateFolder(tmp_path)
    owner = StateFolder.owner(tmp_path)
    assert owner is not None
    assert owner.pid == os.getpid()
    assert owner.since_us is not None
    assert abs(owner.since_us - time.time_ns() // 1_000) < 60_000_000
    with pytest.raises(StateError, match="another engine uses") as raised:
        StateFolder(tmp_path)
    assert raised.value.detail == f"process {os.getpid()} has it"
    (tmp_path / "lock").write_text("{")  # not yet signed
    assert StateFolder.owner(tmp_path) == Owner(None, None)
    folder.release()
    assert StateFolder.owner(tmp_path) is None


def test_who_only_looks_does_not_keep_an_engine_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.store.folder.PATIENCE", 10_000)  # the one who looks may be slow here
    StateFolder(tmp_path).release()
    lock = os.open(tmp_path / "lock", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    threading.Timer(0.03, os.close, [lock]).start()
    StateFolder(tmp_path).release()


def test_a_folder_that_cannot_be_made_is_a_state_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"cannot use .* as a state folder: Not a directory"):
        StateFolder(tmp_path / "file" / "state")


@pytest.mark.parametrize("record", [{}, {"format": "2", "id": "a"}, {"format": 2}])
def test_a_marker_that_is_none_is_damage(record: dict[str, object], tmp_path: Path) -> None:
    write_record(tmp_path / "format", record)
    with pytest.raises(StateError, match="format is missing or damaged"):
        StateFolder(tmp_path)
    assert StateFolder.owner(tmp_path) is None
