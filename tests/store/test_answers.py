"""Answers come back by query and batch, whatever their columns."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import StateError
from penstock.store.answer_parts import alike_together
from penstock.store.answers import DEFINITION, AnswerLog, DiskAnswerLog, MemoryAnswerLog, answers_of


def numbers(*rows: tuple[int, int]) -> pa.Table:
    return pa.table({DEFINITION: [d for d, _ in rows], "n": [n for _, n in rows]})


ODD = pa.table(
    {
        DEFINITION: [3, 3],
        "w": pa.array([Decimal("0.10"), None], pa.decimal128(38, 2)),
        "x": [float("nan"), -0.0],
        "b": [b"\x00\xff", None],
        "k": [{"a": [1, None]}, None],
        "": ["é", "\x00"],
    }
)
EMPTY = pa.table({DEFINITION: pa.array([], pa.int64()), "n": pa.array([], pa.int64())})


def opened(kind: str, folder: Path) -> AnswerLog:
    return DiskAnswerLog(folder / "answers") if kind == "disk" else MemoryAnswerLog()


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_answers_come_back_by_query_oldest_batch_first(kind: str, tmp_path: Path) -> None:
    log = opened(kind, tmp_path)
    assert log.last() is None
    log.append(4, [numbers((1, 10), (2, 20)), ODD])
    log.append(5, [EMPTY])
    log.append(9, [numbers((1, 11))])
    assert log.last() == 9
    assert [n for n, _ in log.batches(4)] == [5, 9]
    assert [t["n"].to_pylist() for t in answers_of(log, [1])] == [[10], [11]]
    assert answers_of(log, [7]) == []
    (odd,) = answers_of(log, [3])
    assert str(odd.to_pylist()) == str(ODD.drop_columns([DEFINITION]).to_pylist())
    assert odd.schema == ODD.drop_columns([DEFINITION]).schema


def test_many_answers_are_compressed_and_found_by_query(tmp_path: Path) -> None:
    log, rows = DiskAnswerLog(tmp_path), 200_000
    many = pa.table({DEFINITION: [number % 5 for number in range(rows)], "n": list(range(rows))})
    log.append(1, alike_together([many.slice(0, 7), numbers((9, 9)), many.slice(7)]))
    parts = log.spill(2, [many])
    log.append(2, [], parts)
    assert [part.holds.definitions for part in parts] == [((0, 0),), ((1, 1),), ((2, 2),), ((3, 3),), ((4, 4),)]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * many.nbytes * 0.7
    again = DiskAnswerLog(tmp_path)
    assert again.definitions() == log.definitions() == {0, 1, 2, 3, 4, 9}
    assert [n for t in answers_of(again, [3]) for n in t["n"].to_pylist()] == 2 * list(range(3, rows, 5))
    assert [n for t in answers_of(again, [9]) for n in t["n"].to_pylist()] == [9]


def test_a_folder_opened_again_holds_the_same(tmp_path: Path) -> None:
    DiskAnswerLog(tmp_path).append(3, [numbers((1, 10)), ODD])
    again = DiskAnswerLog(tmp_path)
    again.append(4, [numbers((1, 11))])
    assert [(n, len(tables)) for n, tables in DiskAnswerLog(tmp_path).batches(-1)] == [(3, 2), (4, 1)]
    assert DiskAnswerLog(tmp_path).last() == 4


def test_a_batch_without_answers_leaves_no_file(tmp_path: Path) -> None:
    log = DiskAnswerLog(tmp_path)
    log.append(0, [])
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    log = DiskAnswerLog(tmp_path)
    log.append(0, [numbers((1, 10))])
    (file,) = tmp_path.iterdir()
    os.truncate(file, 100)
    with pytest.raises(StateError, match=r"000000000000.answers is missing or damaged"):
        list(log.batches(-1))
