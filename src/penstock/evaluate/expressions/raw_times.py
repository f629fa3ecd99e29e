"""Reads times as whole numbers, however deeply nested: Spark has many more years than Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def raw_type(type_: pa.DataType) -> pa.DataType:
    """Put whole numbers in the place of times in a type."""
    if pa.types.is_timestamp(type_):
        return pa.int64()
    if pa.types.is_date32(type_):
        return pa.int32()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(raw_type(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(raw_type(type_.key_type), raw_type(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(raw_type(type_.value_type)))
    return type_


def raw_times(column: pa.Array | pa.ChunkedArray) -> Any:
    """Return a column with whole numbers in the place of times."""
    raw = raw_type(column.type)
    return column if raw == column.type else column.cast(raw)


def raw_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """List the values of a column, times as whole numbers."""
    return list(raw_times(column).to_pylist())
