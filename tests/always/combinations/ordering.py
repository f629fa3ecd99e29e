"""Orders rows as windows of rows, first and last have them: by time, then by Spark's xxhash64 of the row's columns.

The hash is written out here from its specification, so that nothing of the engine or of Spark decides the order.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

Columns = Sequence[tuple[str, str]]  # names and types

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_SEED = 42


def row_hash(row: Mapping[str, Any], columns: Columns) -> int:
    """Hash a row, column by column; NULL leaves the hash as it is."""
    found = _SEED
    for name, type_ in columns:
        if row[name] is not None:
            found = _hashed(row[name], type_, found)
    return found - (1 << 64) if found >> 63 else found


def _hashed(value: Any, type_: str, seed: int) -> int:
    match type_:
        case "string":
            return _of_bytes(value.encode(), seed)
        case "boolean" | "int":
            return _of_int(int(value), seed)
        case "bigint" | "timestamp":
            return _of_long(value, seed)
        case "double":
            bits = 0x7FF8000000000000 if math.isnan(value) else struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
            return _of_long(bits, seed)
        case "decimal(10,2)":
            return _of_long(int(value * Decimal(100)), seed)
    raise ValueError(type_)


def _of_int(value: int, seed: int) -> int:
    found = (seed + _P5 + 4) & _MASK
    found ^= ((value & 0xFFFFFFFF) * _P1) & _MASK
    return _mixed((_turned(found, 23) * _P2 + _P3) & _MASK)


def _of_long(value: int, seed: int) -> int:
    found = (seed + _P5 + 8) & _MASK
    return _mixed(_with_long(found, value & _MASK))


def _with_long(found: int, value: int) -> int:
    found ^= (_turned((value * _P2) & _MASK, 31) * _P1) & _MASK
    return (_turned(found, 27) * _P1 + _P4) & _MASK


def _of_bytes(data: bytes, seed: int) -> int:
    """Hash fewer than 32 bytes, as all strings here are."""
    assert len(data) < 32
    found, at = (seed + _P5 + len(data)) & _MASK, 0
    while at + 8 <= len(data):
        found, at = _with_long(found, int.from_bytes(data[at : at + 8], "little")), at + 8
    if at + 4 <= len(data):
        found ^= (int.from_bytes(data[at : at + 4], "little") * _P1) & _MASK
        found, at = (_turned(found, 23) * _P2 + _P3) & _MASK, at + 4
    for byte in data[at:]:
        found ^= (byte * _P5) & _MASK
        found = (_turned(found, 11) * _P1) & _MASK
    return _mixed(found)


def _mixed(found: int) -> int:
    found ^= found >> 33
    found = (found * _P2) & _MASK
    found ^= found >> 29
    found = (found * _P3) & _MASK
    return found ^ (found >> 32)


def _turned(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK
