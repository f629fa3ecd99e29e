"""A state folder as format 1 wrote it goes on in format 2; killed anywhere in between, the migration starts over."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import StateError
from penstock.store import faults
from penstock.store.answers import DiskAnswerLog, answers_of
from penstock.store.commits import DiskCommitLog
from penstock.store.files import read_record, write_record
from penstock.store.folder import StateFolder
from tests.store.dying import Died, dying_at

FORMAT_1 = Path(__file__).parent / "format1"  # 133 rows in 9 batches, three queries, a sink


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(FORMAT_1, tmp_path, dirs_exist_ok=True)
    yield tmp_path / "state"
    faults.hook = None


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    StateFolder(tmp_path).release()
    write_record(tmp_path / "format", {**read_record(tmp_path / "format"), "format": 99})
    with pytest.raises(StateError, match="has format 99, newer than 4"):
        StateFolder(tmp_path)
    assert StateFolder.owner(tmp_path) is None


def whole(folder: Path) -> tuple[list[tuple[int, str | None, int | None]], list[object]]:
    """Read a migrated folder's commits and answers."""
    commits, answers = DiskCommitLog(folder / "commits" / "trades"), DiskAnswerLog(folder / "answers" / "trades")
    replayed = [(c.number, c.partials_sum, None if t is None else t.num_rows) for c, t in commits.replay()]
    return replayed, [t.to_pylist() for t in answers_of(answers, range(9))]


def test_killed_anywhere_the_migration_starts_over(old: Path) -> None:
    shutil.copytree(old, old.parent / "undisturbed")
    StateFolder(old.parent / "undisturbed").release()
    expected = whole(old.parent / "undisturbed")
    assert [number for number, _, _ in expected[0]] == [7, 8]
    assert all(told is not None for _, told, _ in expected[0])
    for nth in range(200):
        folder = old.parent / f"killed-{nth}"
        shutil.copytree(old, folder)
        with dying_at(nth) as reached, contextlib.suppress(Died):
            StateFolder(folder).release()
        StateFolder(folder).release()
        assert whole(folder) == expected
        shutil.rmtree(folder)
        if len(reached) <= nth:  # not killed
            break
    assert {point.partition(".")[0] for point in reached} >= {"migration", "format"}


@pytest.mark.parametrize("name", ["answers/trades/000000000003.answers", "commits/trades/000000000007.arrow"])
def test_damage_of_format_1_is_named(old: Path, name: str) -> None:
    os.truncate(old / name, 100)
    with pytest.raises(StateError, match=f"{Path(name).name} is missing or damaged"):
        StateFolder(old)
    assert StateFolder.owner(old) is None
