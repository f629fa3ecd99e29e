"""Writes columns of Arrow as Postgres' binary COPY has them, column by column, and puts them together to rows."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import repeat
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.sinks.row_values import plain_values

HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TAIL: Final = struct.pack("!h", -1)
NULL: Final = struct.pack("!i", -1)
PIECE: Final = 20_000  # rows that are bytes in memory at a time
_EPOCH_US: Final = 946_684_800_000_000  # 2000-01-01, from which Postgres counts
_EPOCH_DAYS: Final = 10_957
_FIRST_US: Final = -211_813_488_000_000_000  # 4713 BC, before which it has no times; counted from 2000
_FIRST_DAY: Final = -2_451_545
_LAST_DAY: Final = 2_145_031_948
_BEFORE_ALL: Final = {8: -(1 << 63), 4: -(1 << 31)}  # -infinity
_AFTER_ALL: Final = (1 << 31) - 1  # infinity, of days

_EXACT: Final = Context(prec=100)

Values = Sequence[bytes]  # of a column: the length and the bytes of each value, or NULL
Write = Callable[[pa.Array], Values]


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A type of Postgres, as ``format_type`` writes it, and what writes a column of it."""

    name: str
    write: Write


def copy_rows(columns: Sequence[tuple[PostgresType, pa.ChunkedArray | pa.Array]]) -> Iterator[bytes]:
    """Write the rows that some columns make, in pieces."""
    rows = len(columns[0][1])
    head = struct.pack("!h", len(columns))
    for at in range(0, rows, PIECE):
        pieces = [kind.write(_whole(column.slice(at, PIECE))) for kind, column in columns]
        yield b"".join(part for row in zip(repeat(head), *pieces) for part in row)


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array, without a dictionary."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.dictionary_decode() if pt.is_dictionary(array.type) else array


def fixed(dtype: str, values: Callable[[pa.Array], Any]) -> Write:
    """Make what writes values of one length: numbers, in the order of bytes that Postgres wants."""
    width = np.dtype(dtype).itemsize
    prefixed = np.dtype([("length", ">i4"), ("value", dtype)])

    def write(array: pa.Array) -> Values:
        rows = np.empty(len(array), prefixed)
        rows["length"], rows["value"] = width, values(array)
        content, size = rows.tobytes(), width + 4
        found = [content[at : at + size] for at in range(0, len(content), size)]
        return _with_nulls(found, array)

    return write


def _with_nulls(found: list[bytes], array: pa.Array) -> Values:
    """Put NULL where a column has it."""
    if array.null_count:
        for place in np.flatnonzero(np.asarray(array.is_null())).tolist():
            found[place] = NULL
    return found


def _lengthened(values: Iterable[bytes | None]) -> Values:
    """Put the length before each value."""
    return [NULL if value is None else struct.pack("!i", len(value)) + value for value in values]


def _numbers(kind: pa.DataType) -> Callable[[pa.Array], Any]:
    """Make what reads a column as numbers, with anything for NULL."""
    return lambda array: pc.fill_null(array.cast(kind), pa.scalar(0, pa.int64()).cast(kind)).to_numpy()


def _truths(array: pa.Array) -> Any:
    """Read truth values as 0 and 1."""
    return pc.fill_null(array, False).to_numpy(zero_copy_only=False)


def _times(array: pa.Array) -> Any:
    """Read times as microseconds from 2000 on; those before Postgres' first one as -infinity."""
    known = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())
    micros = pc.fill_null(known, 0).to_numpy()
    early = micros < _FIRST_US + _EPOCH_US
    return np.where(early, _BEFORE_ALL[8], np.where(early, 0, micros) - _EPOCH_US)


def _days(array: pa.Array) -> Any:
    """Read days from 2000 on; those that Postgres does not have as infinity or -infinity."""
    days = pc.fill_null(array.cast(pa.date32()).cast(pa.int32()), 0).to_numpy().astype(np.int64) - _EPOCH_DAYS
    return np.where(days < _FIRST_DAY, _BEFORE_ALL[4], np.where(days > _LAST_DAY, _AFTER_ALL, days))


def _intervals(array: pa.Array) -> Values:
    """Write lengths of time: microseconds, no days, no months."""
    micros = array.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
    return _lengthened(None if us is None else struct.pack("!qii", us, 0, 0) for us in micros)


def _texts(array: pa.Array) -> Values:
    """Write texts; what Postgres cannot hold in one, zero bytes and what is no UTF-8, is replaced."""
    try:
        array.validate(full=True)
        if not pc.any(pc.match_substring(array, "\0")).as_py():
            return _lengthened(array.cast(pa.large_binary()).to_pylist())
    except pa.ArrowInvalid:
        array = pa.array(plain_values(array), pa.string())
    return _lengthened(None if text is None else without_zeros(text).encode() for text in array.to_pylist())


def without_zeros(text: str) -> str:
    """Replace zero bytes, which Postgres refuses in texts."""
    return text.replace("\0", "\ufffd")


def _objects(array: pa.Array) -> Values:
    """Write nested values as jsonb."""
    return _lengthened(None if value is None else b"\x01" + _json(value) for value in plain_values(array))


def _json(value: Any) -> bytes:
    """Write a value as JSON."""
    text = json.dumps(value, ensure_ascii=False)
    return (json.dumps(_replaced(value), ensure_ascii=False) if "\\u0000" in text else text).encode()


def _replaced(value: Any) -> Any:
    """Replace zero bytes in all texts of a value."""
    match value:
        case str():
            return without_zeros(value)
        case list() | tuple():
            return [_replaced(one) for one in value]
        case dict():
            return {without_zeros(name): _replaced(one) for name, one in value.items()}
        case _:
            return value


def _decimals(array: pa.Array) -> Values:
    """Write decimals."""
    return _lengthened(None if value is None else _decimal(value) for value in array.to_pylist())


def _decimal(value: Decimal) -> bytes:
    """Write a decimal as digits to the base of 10,000, from the first one that counts.

    >>> _decimal(Decimal("-12.5")).hex(" ", 2)
    '0002 0000 4000 0001 000c 1388'
    """
    sign, _, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    unscaled = int(value.copy_abs().scaleb(scale + -scale % 4, _EXACT))
    found: list[int] = []
    while unscaled:
        unscaled, digit = divmod(unscaled, 10_000)
        found.append(digit)
    weight = len(found) - -(-scale // 4) - 1
    return struct.pack(f"!hhHH{len(found)}h", len(found), weight, 0x4000 * sign, scale, *reversed(found))


def _others(array: pa.Array) -> Values:
    """Write what has no type of its own here as text."""
    return _lengthened(None if value is None else without_zeros(str(value)).encode() for value in plain_values(array))


def _is_nested(kind: pa.DataType) -> bool:
    """Tell whether a type has others inside."""
    return bool(pt.is_nested(kind))


def _is_local(kind: pa.DataType) -> bool:
    """Tell whether a type has times of no zone."""
    return bool(pt.is_timestamp(kind)) and kind.tz is None


TYPES: Final[tuple[tuple[Callable[[pa.DataType], bool], PostgresType], ...]] = (
    (pt.is_boolean, PostgresType("boolean", fixed("?", _truths))),
    (pt.is_int8, PostgresType("smallint", fixed(">i2", _numbers(pa.int16())))),
    (pt.is_int16, PostgresType("smallint", fixed(">i2", _numbers(pa.int16())))),
    (pt.is_int32, PostgresType("integer", fixed(">i4", _numbers(pa.int32())))),
    (pt.is_int64, PostgresType("bigint", fixed(">i8", _numbers(pa.int64())))),
    (pt.is_float32, PostgresType("real", fixed(">f4", _numbers(pa.float32())))),
    (pt.is_float64, PostgresType("double precision", fixed(">f8", _numbers(pa.float64())))),
    (pt.is_decimal, PostgresType("numeric", _decimals)),
    (pt.is_string, PostgresType("text", _texts)),
    (pt.is_large_string, PostgresType("text", _texts)),
    (pt.is_binary, PostgresType("bytea", lambda array: _lengthened(array.to_pylist()))),
    (pt.is_large_binary, PostgresType("bytea", lambda array: _lengthened(array.to_pylist()))),
    (pt.is_date, PostgresType("date", fixed(">i4", _days))),
    (_is_local, PostgresType("timestamp without time zone", fixed(">i8", _times))),
    (pt.is_timestamp, PostgresType("timestamp with time zone", fixed(">i8", _times))),
    (pt.is_duration, PostgresType("interval", _intervals)),
    (_is_nested, PostgresType("jsonb", _objects)),
)
UUID: Final = PostgresType("uuid", lambda array: _lengthened(array.to_pylist()))


def type_of(kind: pa.DataType) -> PostgresType:
    """Find the type of a column."""
    if pt.is_dictionary(kind):
        return type_of(kind.value_type)
    return next((found for fits, found in TYPES if fits(kind)), PostgresType("text", _others))
