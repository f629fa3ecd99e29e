"""Rows read from Arrow: a value is the same whatever is beside it, in Python and in JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sinks.row_values import plain_rows, python_rows

MICROS = st.none() | st.integers(-(2**60), 2**60) | st.integers(-(2**53), 2**53)
INSTANT, LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
STRUCTS = st.none() | st.fixed_dictionaries({"a": MICROS, "b": st.none() | st.lists(MICROS, max_size=3)})
KINDS = {
    "instant": (INSTANT, MICROS),
    "local": (LOCAL, MICROS),
    "day": (pa.date32(), st.none() | st.integers(-(2**31), 2**31 - 1)),
    "struct": (pa.struct([("a", INSTANT), ("b", pa.list_(LOCAL))]), STRUCTS),
    "list": (pa.list_(INSTANT), st.none() | st.lists(MICROS, max_size=3)),
    "map": (pa.map_(pa.string(), INSTANT), st.none() | st.lists(st.tuples(st.just("k"), MICROS), max_size=2)),
}


def array(kind: str, values: list[Any]) -> pa.Array:
    type_ = KINDS[kind][0]
    return pa.array(values, pa.int32()).cast(type_) if kind == "day" else pa.array(values, type_)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_value_reads_the_same_alone_as_beside_others(kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(KINDS[kind][1], max_size=5))
    table = pa.table({"x": array(kind, values)})
    for read in (plain_rows, python_rows):
        alone = [read(table.slice(i, 1))[0] for i in range(len(values))]
        assert read(table) == alone
        assert [repr(row) for row in read(table)] == [repr(row) for row in alone]
    json.dumps(plain_rows(table))


def test_times_beyond_pythons_years_come_as_text_and_others_as_ever() -> None:
    far = -62_135_596_800_000_000 - 300_000_000
    times = {"t": array("instant", [far, 0]), "n": array("local", [far, 0])}
    table = pa.table({**times, "d": array("day", [-800_000, 0])})
    assert python_rows(table) == [
        {"t": "0000-12-31T23:55:00.000000Z", "n": "0000-12-31T23:55:00.000000", "d": "-0221-09-04"},
        {"t": datetime(1970, 1, 1, tzinfo=UTC), "n": datetime(1970, 1, 1), "d": date(1970, 1, 1)},
    ]
    assert plain_rows(table)[1] == {
        "t": "1970-01-01T00:00:00.000000Z",
        "n": "1970-01-01T00:00:00.000000",
        "d": "1970-01-01",
    }


def test_strings_that_are_no_utf_8_are_replaced_sign_by_sign() -> None:
    texts = pa.array([b"a\xff", b"b", None], pa.binary()).view(pa.string())
    table = pa.table({"x": texts, "y": pa.StructArray.from_arrays([texts], ["s"])})
    assert [row["x"] for row in python_rows(table)] == ["a\ufffd", "b", None]
    assert [row["y"]["s"] for row in plain_rows(table)] == ["a\ufffd", "b", None]
