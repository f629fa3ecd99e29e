"""Rows that continuous queries took stay the same, commit by commit, while small folders are put together."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import StateError
from penstock.kernel.takers import Takers
from penstock.spark.kept_rows.commit_folders import TIME
from penstock.spark.kept_rows.taken_rows import TakenRows
from penstock.store import faults
from penstock.store.faults import MOMENTS
from penstock.store.taken_plan import TakenCommit, TakenPlan

Answered = dict[int, list[tuple[int, int]]]  # commit -> ordinals and values


class Killed(BaseException):
    """The end of a process, as far as the rows can tell."""


@pytest.fixture(autouse=True)
def no_hook_left() -> Iterator[None]:
    yield
    faults.hook = None


def take(rows: TakenRows, number: int, plan: int = 0) -> None:
    """Store a commit of some rows, whose values tell the commit."""
    if number == plan:
        rows.begin_plan(TakenPlan(plan, (), (), (1,)), Takers(1))
    count = random.Random(number).randint(1, 40)
    values = [number * 1_000 + place for place in range(count)]
    rows.write(pa.table({"o0": values, "f0": pa.array([1] * count, pa.int32()), TIME: values}), number)
    rows.add(TakenCommit(number, plan, count, None, values[-1]))


def answered(rows: TakenRows) -> Answered:
    """Read all commits."""
    found: Answered = {}
    for commit in rows.commits():
        mine = found.setdefault(commit.number, [])
        for first, piece in rows.pieces(commit, ["o0"]):
            mine += enumerate(piece["o0"].to_pylist(), first)
    return found


def expected(numbers: range) -> Answered:
    """Write what was taken."""
    counts = {number: random.Random(number).randint(1, 40) for number in numbers}
    return {number: [(place, number * 1_000 + place) for place in range(count)] for number, count in counts.items()}


def put_together(rows: TakenRows, upto: int) -> None:
    for _ in rows.putting_together(upto):
        pass


def folders(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir() if one.is_dir())


def test_commits_read_the_same_after_small_folders_were_put_together(tmp_path: Path) -> None:
    rows = TakenRows(tmp_path)
    for number in range(100):
        take(rows, number)
        put_together(rows, number)
    assert answered(rows) == answered(TakenRows(tmp_path)) == expected(range(100))
    assert folders(tmp_path)[0].startswith("000000000000-")
    assert len(folders(tmp_path)) < 8
    assert len([path for path in tmp_path.glob("0*.json")]) == len(folders(tmp_path))


def test_only_commits_that_hold_and_are_of_one_plan_are_put_together(tmp_path: Path) -> None:
    rows = TakenRows(tmp_path)
    for number in range(20):
        take(rows, number, 0 if number < 4 else 4)
    put_together(rows, 15)
    assert folders(tmp_path)[:5] == [*(f"{n:012d}" for n in range(4)), "000000000004-000000000015"]
    rows.forget_after(15)
    assert answered(rows) == expected(range(16))


@pytest.mark.parametrize("moment", [f"{point}.{at}" for point in ("taken", "taken.together") for at in MOMENTS])
def test_a_death_while_folders_are_put_together_loses_and_repeats_nothing(tmp_path: Path, moment: str) -> None:
    def reached(one: str) -> None:
        if one == moment:
            raise Killed

    rows = TakenRows(tmp_path)
    for number in range(80):
        take(rows, number)
        if number % 8 == 7:
            faults.hook = reached
            with pytest.raises(Killed):
                put_together(rows, number)
            faults.hook = None
            rows = TakenRows(tmp_path)
            rows.forget_after(number)
            rows.require(number, len(expected(range(number, number + 1))[number]))
            assert answered(rows) == expected(range(number + 1))
            if number % 16 == 15:
                put_together(rows, number)
                assert answered(rows) == answered(TakenRows(tmp_path)) == expected(range(number + 1))


def test_a_reader_has_whole_commits_while_folders_are_put_together(tmp_path: Path) -> None:
    rows, seen = TakenRows(tmp_path), list[Answered]()
    for number in range(64):
        take(rows, number)
    reader = threading.Thread(target=lambda: seen.extend(answered(rows) for _ in range(5)))
    reader.start()
    put_together(rows, 63)
    reader.join()
    assert seen == [expected(range(64))] * 5


def test_rows_expire_with_the_last_of_their_folder(tmp_path: Path) -> None:
    rows = TakenRows(tmp_path)
    for number in range(10):
        take(rows, number)
    put_together(rows, 7)
    rows.expire(range(5))
    assert answered(rows) == expected(range(10))
    assert rows.expired == -1
    rows.expire(range(9))
    assert answered(rows) == answered(TakenRows(tmp_path)) == expected(range(9, 10))
    assert rows.expired == 8
    assert folders(tmp_path) == ["000000000009"]
    assert [path.name for path in tmp_path.glob("0*.json")] == ["000000000009.json"]


def test_rows_that_are_lost_are_missed(tmp_path: Path) -> None:
    rows = TakenRows(tmp_path)
    take(rows, 0)
    for file in tmp_path.glob("*/*.parquet"):
        file.unlink()
    with pytest.raises(StateError):
        TakenRows(tmp_path).require(0, len(expected(range(1))[0]))
