"""Gives answers the columns that tables of Delta can have: types that it knows, and names that all its readers take."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.model.instants import DAY_US
from penstock.sinks.parquet_by_query import TIMES
from penstock.sinks.row_values import plain_values

SOURCE: Final = "penstock_source"  # state folder and stream
BATCH: Final = "penstock_batch"
DAY: Final = "day"
LEFT_OUT: Final = "query_name"  # the table has it
OWN: Final = (SOURCE, BATCH, DAY)
_REFUSED: Final = re.compile(r"[ ,;{}()\n\t=\0]")  # in names of columns, by Delta without column mapping
_MARKED: Final = re.compile(r".*_[0-9a-f]{16}", re.DOTALL)


def column_name(name: str) -> str:
    """Name a column as the query has it, or with a number behind it if Delta cannot, as no other one is named.

    >>> column_name("shares"), column_name("the sum")
    ('shares', 'the_sum_7eb3a5bfaca6e0c1')
    """
    if name and name.lower() not in OWN and not _REFUSED.search(name) and not _MARKED.fullmatch(name):
        return name
    return f"{_REFUSED.sub('_', name)}_{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Find the type that a table has for one of answers: lengths of time are microseconds, what is unknown is text."""
    if pt.is_dictionary(kind):
        return stored_type(kind.value_type)
    if pt.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pt.is_duration(kind):
        return pa.int64()
    if pt.is_struct(kind):
        return pa.struct([pa.field(field.name, stored_type(field.type)) for field in kind])
    if pt.is_map(kind):
        return pa.map_(stored_type(kind.key_type), stored_type(kind.item_type))
    if pt.is_list(kind) or pt.is_large_list(kind):
        return pa.list_(stored_type(kind.value_type))
    return kind if any(known(kind) for known in _KNOWN) else pa.string()


_KNOWN: Final = (
    pt.is_boolean,
    pt.is_signed_integer,
    pt.is_floating,
    pt.is_decimal,
    pt.is_string,
    pt.is_binary,
    pt.is_date32,
)


_FIRST_DAY: Final = -719_162  # year 1, before which Delta has no times
_LAST_DAY: Final = 2_932_896  # the last one of the year 9999
_FIRST_US: Final = _FIRST_DAY * DAY_US
_LAST_US: Final = (_LAST_DAY + 1) * DAY_US - 1


def stored(rows: pa.Table, source: str, number: int, *, by_day: bool) -> pa.Table:
    """Write answers as their table has them, with the batch that they are of."""
    count = rows.num_rows
    columns = {column_name(name): _stored(rows[name]) for name in rows.column_names if name != LEFT_OUT}
    columns[SOURCE] = pa.array([source]).take(pa.repeat(0, count))
    columns[BATCH] = pa.repeat(pa.scalar(number, pa.int64()), count)
    if by_day:
        columns[DAY] = _days(rows)
    return pa.table(columns)


def _days(rows: pa.Table) -> pa.Array:
    """Return the days, in UTC, on which windows begin, or rows happened."""
    name = next(name for name in TIMES if name in rows.column_names)
    micros = _near(rows[name].cast(pa.timestamp("us", "UTC"))).cast(pa.int64())
    return pa.array(np.floor_divide(pc.fill_null(micros, 0).to_numpy(), DAY_US).astype(np.int32)).cast(pa.date32())


def _stored(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Write a column in the type that its table has; what is no UTF-8 in texts is replaced."""
    kind = stored_type(column.type)
    if kind == pa.string() and not pt.is_string(column.type):
        return pa.chunked_array([[None if v is None else str(v) for v in plain_values(column.combine_chunks())]], kind)
    if pt.is_string(column.type):
        return _readable(column)
    return _near(column.cast(kind))


def _near(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Put the first or last time that Delta has in place of those beyond."""
    numbers = _as_numbers(column.type)
    if numbers == column.type:
        return column
    if not pt.is_nested(column.type):
        first, last = _bounds(column.type)
        known = column.cast(numbers)
        late = pc.max_element_wise(known, first, skip_nulls=False)
        return pc.min_element_wise(late, last, skip_nulls=False).cast(column.type)
    near = [_near_value(value, column.type) for value in column.cast(numbers).to_pylist()]
    return pa.chunked_array([near], numbers).cast(column.type)


def _bounds(kind: pa.DataType) -> tuple[pa.Scalar, pa.Scalar]:
    """Return the first and the last number of a type of times."""
    if pt.is_date(kind):
        return pa.scalar(_FIRST_DAY, pa.int32()), pa.scalar(_LAST_DAY, pa.int32())
    return pa.scalar(_FIRST_US, pa.int64()), pa.scalar(_LAST_US, pa.int64())


def _as_numbers(kind: pa.DataType) -> pa.DataType:
    """Find the type that has numbers in place of times."""
    if pt.is_timestamp(kind):
        return pa.int64()
    if pt.is_date(kind):
        return pa.int32()
    if pt.is_struct(kind):
        return pa.struct([pa.field(field.name, _as_numbers(field.type)) for field in kind])
    if pt.is_map(kind):
        return pa.map_(_as_numbers(kind.key_type), _as_numbers(kind.item_type))
    return pa.list_(_as_numbers(kind.value_type)) if pt.is_list(kind) else kind


def _near_value(value: Any, kind: pa.DataType) -> Any:
    """Do so in a nested value, whose times are numbers."""
    if value is None:
        return None
    if pt.is_struct(kind):
        return {field.name: _near_value(value[field.name], field.type) for field in kind}
    if pt.is_map(kind):
        return [(_near_value(k, kind.key_type), _near_value(v, kind.item_type)) for k, v in value]
    if pt.is_list(kind):
        return [_near_value(one, kind.value_type) for one in value]
    if pt.is_timestamp(kind) or pt.is_date(kind):
        first, last = (bound.as_py() for bound in _bounds(kind))
        return min(max(value, first), last)
    return value


def _readable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts that are UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return pa.chunked_array([plain_values(column.combine_chunks())], pa.string())
    return column
