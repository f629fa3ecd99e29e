"""Lines written column by column are those written row by row."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.printable import json_text
from penstock.sinks.json_lines import json_lines
from penstock.sinks.row_values import plain_rows

NAMES = ("query_name", 'a "quoted" é', "signs \x1b[7m")
US = st.integers(-(1 << 62), 1 << 62)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, 1.0, 1e16, 5e-324]),
    pa.float32(): st.floats(width=32) | st.sampled_from([0.0, -0.0]),
    pa.string(): st.text(max_size=4) | st.sampled_from(["", "null", "é符\x1b\u2028", '"\\\n']),
    pa.binary(): st.binary(max_size=3),
    pa.decimal128(38, 4): st.decimals(-99, 99, places=4),
    pa.date32(): st.dates(date(1, 1, 1), date(9999, 12, 31)),
    pa.time64("us"): st.times().map(lambda t: time(t.hour, t.minute, t.second, t.microsecond)),
    pa.duration("us"): st.timedeltas(timedelta(days=-9), timedelta(days=9)),
    pa.timestamp("us", tz="UTC"): US,
    pa.timestamp("us"): US,
    pa.null(): st.none(),
    pa.list_(pa.float64()): st.lists(st.floats(), max_size=3),
    pa.struct([("n", pa.int64()), ("d", pa.decimal128(9, 2))]): st.fixed_dictionaries(
        {"n": st.integers(0, 9), "d": st.just(Decimal("1.50"))}
    ),
    pa.map_(pa.string(), pa.int64()): st.lists(st.tuples(st.text(max_size=2), st.integers(0, 9)), max_size=2),
}


@st.composite
def columns(draw: st.DrawFn, rows: int) -> pa.ChunkedArray:
    """Draw a column of some type in one or two chunks, with a dictionary or without, cut out of a longer one."""
    kind = draw(st.sampled_from(list(VALUES)))
    values = draw(st.lists(st.none() | VALUES[kind], min_size=rows + 1, max_size=rows + 1))
    array = pa.array(values, pa.int64()).view(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)
    if pa.types.is_string(kind) and draw(st.booleans()):
        array = array.dictionary_encode()
    cut = draw(st.integers(1, rows + 1))
    return pa.chunked_array([array[1:cut], array[cut:]])


@given(st.data(), st.integers(1, 6))
def test_a_table_reads_as_its_rows_one_by_one(data: st.DataObject, rows: int) -> None:
    names = NAMES[: data.draw(st.integers(1, len(NAMES)))]
    table = pa.table([data.draw(columns(rows)) for _ in names], names=list(names))
    assert bytes(json_lines(table)).decode() == "".join(
        f"{json_text(row, allow_nan=False)}\n" for row in plain_rows(table)
    )


@pytest.mark.parametrize("kind", [pa.month_day_nano_interval(), pa.string()])
def test_values_that_have_no_dictionary_and_broken_ones_are_written_one_by_one(kind: pa.DataType) -> None:
    array = pa.array([None, (1, 2, 0)], kind) if kind != pa.string() else pa.array([b"\xff", None]).view(kind)
    table = pa.table([array], names=["x"])
    assert bytes(json_lines(table)).decode() == "".join(f"{json_text(row)}\n" for row in plain_rows(table))


def test_no_rows_are_no_lines() -> None:
    assert bytes(json_lines(pa.table({"x": pa.array([], pa.int64())}))) == b""
