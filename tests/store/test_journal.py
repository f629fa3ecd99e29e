"""The journal holds what was acknowledged: a torn end is cut off, damage before it is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import StateError
from penstock.store.journal import Journal

RECORDS = [{"op": "create", "name": name} for name in ("a", "é", "c\nd")]


def journal_of(path: Path) -> Path:
    Journal(path).append(*RECORDS)
    return path


def test_records_come_back_in_order(tmp_path: Path) -> None:
    path = journal_of(tmp_path / "log")
    Journal(path).append({"op": "drop"})
    assert list(Journal(path)) == [*RECORDS, {"op": "drop"}]


def test_a_journal_without_a_path_remembers_nothing() -> None:
    journal = Journal(None)
    journal.append(*RECORDS)
    assert list(journal) == []


def test_wherever_a_crash_cuts_the_journal_the_whole_lines_stay(tmp_path: Path) -> None:
    content = journal_of(tmp_path / "log").read_bytes()
    for length in range(len(content)):
        (tmp_path / "cut").write_bytes(content[:length])
        journal = Journal(tmp_path / "cut")
        whole = content[:length].count(b"\n")
        assert list(journal) == RECORDS[:whole]
        journal.append({"op": "next"})
        assert list(Journal(tmp_path / "cut")) == [*RECORDS[:whole], {"op": "next"}]


def test_a_damaged_line_is_reported_with_its_number(tmp_path: Path) -> None:
    path = journal_of(tmp_path / "log")
    content = bytearray(path.read_bytes())
    content[content.index(b"\n") + 20] ^= 1
    path.write_bytes(content)
    with pytest.raises(StateError, match=r"line 2 of .*log is damaged"):
        list(Journal(path))


def test_a_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot write"):
        Journal(tmp_path / "gone" / "log").append({"op": "create"})
