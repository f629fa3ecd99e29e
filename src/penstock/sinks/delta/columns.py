"""Gives answers the columns that tables of Delta can have: types that it knows, and names that all its readers take."""

from __future__ import annotations

import hashlib
import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

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
    return pc.cast(pc.cast(rows[name], pa.timestamp("us", "UTC")).cast(pa.timestamp("us")), pa.date32(), safe=False)


def _stored(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Write a column in the type that its table has; what is no UTF-8 in texts is replaced."""
    kind = stored_type(column.type)
    if kind == pa.string() and not pt.is_string(column.type):
        return pa.chunked_array([[None if v is None else str(v) for v in plain_values(column.combine_chunks())]], kind)
    if pt.is_string(column.type):
        return _readable(column)
    return column.cast(kind)


def _readable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts that are UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return pa.chunked_array([plain_values(column.combine_chunks())], pa.string())
    return column
