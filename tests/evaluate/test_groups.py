"""Groups are numbered as Spark tells keys apart, and ordered as Spark orders them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.evaluate.groups import Groups, told_apart

TYPES = (pa.string(), pa.float64())
INSTANT = pa.timestamp("us", tz="UTC")


def encoded(groups: Groups, *columns: list[Any]) -> list[int]:
    arrays = [pa.chunked_array([pa.array(c, t)]) for c, t in zip(columns, groups.types, strict=True)]
    return groups.encode(arrays).tolist()


def keys(groups: Groups, position: int = 0) -> list[Any]:
    return groups.keys(position, np.arange(len(groups), dtype=np.int64)).to_pylist()


def in_order(groups: Groups, position: int = 0) -> list[Any]:
    known = keys(groups, position)
    return [known[i] for i in np.argsort(groups.ranks())]


def test_nan_is_one_group_and_so_are_both_zeros() -> None:
    groups = Groups([pa.float64()])
    assert encoded(groups, [math.nan, 0.0, None, -0.0, -math.nan, None]) == [0, 1, 2, 1, 0, 2]
    assert encoded(groups, [None, math.nan, 1.0, -0.0]) == [2, 0, 3, 1]
    assert len(groups) == 4


def test_null_is_a_group_and_comes_first_and_nan_last() -> None:
    groups = Groups([pa.float64()])
    encoded(groups, [math.inf, math.nan, 2.0, None, -math.inf, -1.0])
    assert str(in_order(groups)) == str([None, -math.inf, -1.0, 2.0, math.inf, math.nan])


def test_numbers_last_from_batch_to_batch() -> None:
    groups = Groups([pa.string(), pa.int32()])
    first = encoded(groups, ["a", "b", "a"], [1, 1, 2])
    second = encoded(groups, ["b", "a", None, "a"], [1, 2, 1, 1])
    assert len(groups) == 4
    assert [second[0], second[1], second[3]] == [first[1], first[2], first[0]]
    assert keys(groups)[second[2]] is None
    assert keys(groups, 1)[second[1]] == 2


def test_keys_are_ordered_from_left_to_right() -> None:
    groups = Groups([pa.string(), pa.int32()])
    encoded(groups, ["b", "a", "b", None, "a"], [1, 2, None, 5, -1])
    assert list(zip(in_order(groups), in_order(groups, 1), strict=True)) == [
        (None, 5),
        ("a", -1),
        ("a", 2),
        ("b", None),
        ("b", 1),
    ]


@pytest.mark.parametrize(
    ("type_", "ordered"),
    [
        (pa.string(), [None, "", "A", "a", "a\u0301", "b", "ß", "é", "日", "\uffff", "🙂"]),
        (pa.binary(), [None, b"", b"\x00", b"a", b"\xff"]),
        (pa.bool_(), [None, False, True]),
        (pa.int64(), [None, -(2**63), 0, 2**63 - 1]),
        (pa.decimal128(38, 2), [None, Decimal("-9.00"), Decimal("0.05"), Decimal("1e30")]),
        (pa.date32(), [None, date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
        (INSTANT, [None, datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
        (pa.timestamp("us"), [None, datetime(1969, 1, 1), datetime(2026, 1, 1)]),
        (pa.float32(), [None, -1.5, 0.0, 2.5]),
        (pa.list_(pa.int32()), [None, [], [None], [1], [1, None], [1, 0], [2, 1], [10]]),
        (pa.list_(pa.string()), [None, [], ["a"], ["é"]]),
        (pa.struct([("u", pa.int32()), ("v", pa.bool_())]), [
            None, {"u": None, "v": None}, {"u": 2, "v": None}, {"u": 2, "v": False}, {"u": 10, "v": None}]),
        (pa.null(), [None]),
    ],
)  # fmt: skip
def test_every_type_of_key_is_ordered_as_spark_orders_it(type_: pa.DataType, ordered: list[Any]) -> None:
    for rotation in range(len(ordered)):
        groups = Groups([type_])
        encoded(groups, ordered[rotation:] + ordered[:rotation])
        assert len(groups) == len(ordered)
        assert in_order(groups) == ordered


def test_keys_that_python_cannot_hold_are_kept() -> None:
    groups = Groups([INSTANT, pa.date32(), pa.string()])
    columns = [
        pa.array([1 << 62, -(1 << 62), 1 << 62]).cast(INSTANT),
        pa.array([1 << 24, -(1 << 24), 1 << 24], pa.int32()).cast(pa.date32()),
        pa.array([b"\xff", b"\x00", b"\xff"], pa.binary()).view(pa.string()),
    ]
    assert groups.encode([pa.chunked_array([c]) for c in columns]).tolist() == [0, 1, 0]
    both = np.array([0, 1], np.int64)
    assert groups.keys(0, both).cast(pa.int64()).to_pylist() == [1 << 62, -(1 << 62)]
    assert groups.keys(1, both).cast(pa.int32()).to_pylist() == [1 << 24, -(1 << 24)]
    assert groups.keys(2, both).cast(pa.binary()).to_pylist() == [b"\xff", b"\x00"]
    assert groups.ranks().tolist() == [1, 0]


VALUES = st.none() | st.sampled_from([math.nan, -0.0, 0.0, 1.0, -1.0, math.inf])
ROWS = st.lists(st.tuples(VALUES, st.none() | st.sampled_from(["", "a", "b"]), st.booleans()), max_size=20)


@given(st.lists(ROWS, max_size=4))
def test_rows_have_one_number_exactly_if_their_keys_are_equal(batches: list[list[Any]]) -> None:
    groups, seen = Groups([pa.float64(), pa.string(), pa.bool_()]), dict[Any, int]()
    for rows in batches:
        columns = [list(c) for c in zip(*rows, strict=True)] if rows else [[], [], []]
        for row, number in zip(rows, encoded(groups, *columns), strict=True):
            key = ("nan" if row[0] is not None and math.isnan(row[0]) else row[0], *row[1:])
            assert seen.setdefault(key, number) == number
    assert sorted(seen.values()) == list(range(len(groups)))


def test_a_grouping_without_keys_is_one_group() -> None:
    assert len(Groups([])) == 1
    with pytest.raises(ValueError, match="nothing to number"):
        Groups([]).encode([])


def test_groups_that_are_kept_are_numbered_anew_in_the_same_order() -> None:
    groups = Groups([pa.string(), pa.int32()])
    keys = [pa.chunked_array([["a", "b", None, "d"]]), pa.chunked_array([pa.array([1, 2, 3, 4], pa.int32())])]
    assert groups.encode(keys).tolist() == [0, 1, 2, 3]
    assert groups.keep(np.array([1, 2])).tolist() == [-1, 0, 1, -1]
    assert len(groups) == 2
    assert groups.keys(0, np.array([0, 1])).to_pylist() == ["b", None]
    assert groups.ranks().tolist() == [1, 0]
    assert groups.encode(keys).tolist() == [2, 0, 1, 3]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.floats(-1, 1))), min_size=1), st.data())
def test_keys_told_apart_once_are_numbered_as_if_each_part_had_them_alone(
    rows: list[tuple[str, float | None]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(rows) - 1))
    columns = [pa.chunked_array([pa.array(list(c), t)]) for c, t in zip(zip(*rows, strict=True), TYPES, strict=True)]
    told = [told_apart(column) for column in columns]
    for positions in ((0, 1), (1,)):
        apart, once = (Groups([TYPES[i] for i in positions]) for _ in range(2))
        for part in (slice(cut, None), slice(None)):  # the first knows only some of the values
            alone = apart.encode([columns[i].slice(part.start or 0) for i in positions])
            numbered = once.number([told[i][0][part] for i in positions], [told[i][1] for i in positions])
            named = [
                [str(groups.keys(i, n).to_pylist()) for i in range(len(positions))]
                for groups, n in ((apart, alone), (once, numbered))
            ]
            assert named[0] == named[1]
        assert len(apart) == len(once)
