"""Strings, decimals and tuples are numbered, so that their tables are flat; what is out of use is forgotten."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock.evaluate.components.frequencies import objects
from penstock.evaluate.components.frequency_tables import FlatTables
from penstock.evaluate.components.numbers import ROWS
from penstock.evaluate.components.value_tables import FrequencyTable
from penstock.evaluate.windows import value_pool
from penstock.evaluate.windows.lanes import DenseLane
from penstock.evaluate.windows.value_pool import ValuePool


def test_equal_values_have_equal_numbers_and_tables_come_back_in_order() -> None:
    pool = ValuePool()
    codes = pool.encode(objects([b"b", b"a", b"b", b"c"]))
    assert codes.tolist() == [0, 1, 0, 2]
    found = pool.decode(FlatTables(np.array([0, 1, 2, 0]), np.array([5, 6, 7, 8]), np.array([0, 3, 3, 4])))
    assert found.values.tolist() == [b"a", b"b", b"c", b"b"]
    assert found.weights.tolist() == [6, 5, 7, 8]
    assert found.lengths.tolist() == [3, 0, 1]


def test_values_out_of_use_are_forgotten_once_they_are_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_pool, "MANY", 4)
    pool = ValuePool()
    pool.encode(objects([Decimal(n) for n in range(10)]))
    assert pool.forget_others(np.arange(6)) is None
    moved = pool.forget_others(np.array([7, 2]))
    assert moved is not None
    assert moved[[2, 7]].tolist() == [0, 1]
    assert pool.encode(objects([Decimal(7), Decimal(0)])).tolist() == [1, 2]


def test_a_lane_of_strings_answers_the_same_after_it_has_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_pool, "MANY", 1)
    component = FrequencyTable("`s`", pa.string())
    lane = DenseLane([ROWS, component])
    for label in range(8):
        words = [f"w{label}", f"w{label + 1}"]
        states = pa.array(
            [{"v": words, "n": [0, 1, 3]}], pa.struct([("v", pa.list_(pa.string())), ("n", pa.list_(pa.int32()))])
        )
        lane.add(np.array([label]), np.array([0]), [np.array([3]), component.read([states])])
        lane.expire(label - 2)
        merged = lane.evaluate(np.array([label - 1]), np.array([label + 1]))
        [table] = np.asarray(merged.values[1]).tolist()
        expected = {f"w{label}".encode(): 1, f"w{label + 1}".encode(): 2}
        if label:
            before = {f"w{label - 1}".encode(): 1, f"w{label}".encode(): 3, f"w{label + 1}".encode(): 2}
            expected = before
        assert dict(zip(table.values.tolist(), table.weights.tolist(), strict=True)) == expected
