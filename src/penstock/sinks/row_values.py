"""Reads Arrow tables row by row, as Python's values or as what JSON can hold.

Spark's years are not only 1 to 9999, and its strings need not be UTF-8: what Python cannot hold comes as text. A value
reads the same whatever is beside it.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.model.instants import format_day, format_instant, format_local, python_day, python_instant, python_local


@dataclass(frozen=True, slots=True)
class TimeForm:
    """What instants, times of no zone, and days are read as."""

    instant: Callable[[int, str], Any]  # and its zone
    local: Callable[[int], Any]
    day: Callable[[int], Any]


def _in_zone(us: int, zone: str) -> datetime | str:
    """Return an instant as Arrow gives it to Python: in the zone of its column."""
    found = python_instant(us)
    try:
        return found if isinstance(found, str) else found.astimezone(pa.lib.string_to_tzinfo(zone))
    except OverflowError:
        return format_instant(us)


_PYTHON: Final = TimeForm(_in_zone, python_local, python_day)
_TEXT: Final = TimeForm(lambda us, _: format_instant(us), format_local, format_day)


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Read rows as Python has them; times outside of the years 1 to 9999 come as text."""
    return _rows(table, [_python_values(column) for column in table.columns])


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Read rows as JSON can hold them."""
    return _rows(table, [plain_values(_whole(column)) for column in table.columns])


def plain_values(array: pa.Array) -> list[Any]:
    """Read the values of an array as JSON can hold them."""
    return [plain_value(value) for value in _read(array, _TEXT)]


def plain_value(value: Any) -> Any:
    """Write a value as JSON can: decimals and odd numbers as text, bytes as Base64, intervals as seconds."""
    match value:
        case Decimal():
            return format(value, "f")
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        case bytes():
            return base64.b64encode(value).decode()
        case timedelta():
            return value.total_seconds()
        case time():
            return value.isoformat("microseconds")
        case list() | tuple():
            return [plain_value(v) for v in value]
        case dict():
            return {k: plain_value(v) for k, v in value.items()}
        case _:
            return value


def _rows(table: pa.Table, columns: list[list[Any]]) -> list[dict[str, Any]]:
    """Put columns together to rows."""
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _python_values(column: pa.ChunkedArray) -> list[Any]:
    """Read a column, value by value only where Arrow itself cannot."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return _read(_whole(column), _PYTHON)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks()


def _read(array: pa.Array, times: TimeForm) -> list[Any]:
    """Read the values of an array."""
    kind = array.type
    if pt.is_timestamp(kind):
        micros = array.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        return _each(micros, times.local if kind.tz is None else lambda us: times.instant(us, kind.tz))
    if pt.is_date(kind):
        return _each(array.cast(pa.date32()).cast(pa.int32()), times.day)
    if pt.is_dictionary(kind):
        return _read(array.dictionary_decode(), times)
    if pt.is_struct(kind):
        return _structs(array, times)
    if pt.is_map(kind):
        return _maps(array, times)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return _lists(array, times)
    if pt.is_string(kind) or pt.is_large_string(kind):
        return _strings(array)
    return list(array.to_pylist())


def _each(numbers: pa.Array, read: Callable[[int], Any]) -> list[Any]:
    """Read numbers, each distinct one once: many answers have the same window."""
    found = numbers.to_pylist()
    known: Mapping[int | None, Any] = {n: None if n is None else read(n) for n in set(found)}
    return [known[n] for n in found]


def _structs(array: pa.StructArray, times: TimeForm) -> list[Any]:
    """Read structs as dictionaries."""
    names = [field.name for field in array.type]
    rows = zip(*(_read(part, times) for part in array.flatten()), strict=True) if names else iter([()] * len(array))
    return [dict(zip(names, row, strict=True)) if ok else None for ok, row in zip(_valid(array), rows, strict=True)]


def _lists(array: pa.Array, times: TimeForm) -> list[Any]:
    """Read lists as lists."""
    inside = iter(_read(array.flatten(), times))
    lengths = pc.list_value_length(array).to_pylist()
    return [None if length is None else [next(inside) for _ in range(length)] for length in lengths]


def _maps(array: pa.MapArray, times: TimeForm) -> list[Any]:
    """Read maps as lists of pairs."""
    kind = array.type
    entries = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    found = _lists(entries, times)
    return [None if pairs is None else [(p["key"], p["value"]) for p in pairs] for pairs in found]


def _strings(array: pa.Array) -> list[Any]:
    """Read strings; what is no UTF-8 in them is replaced."""
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        return [None if v is None else v.decode(errors="replace") for v in array.cast(pa.binary()).to_pylist()]


def _valid(array: pa.Array) -> list[bool]:
    """Tell where values are."""
    return list(array.is_valid().to_pylist())
