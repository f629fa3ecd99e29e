"""Key columns in, small group numbers out, and back: the dictionary of the groups seen under one list of keys."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64Array = npt.NDArray[np.int64]

_NAN = object()  # NaN is one group, though NaN ≠ NaN in Python


class Groups:
    """Numbers the groups of one grouping in the order they are first seen."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        """Start without groups; without keys there is one group, number 0."""
        self.types = tuple(types)
        self._numbers: dict[Hashable, int] = {}
        self._columns: list[list[Any]] = [[] for _ in types]
        self._arrays: list[pa.Array] = [pa.array([], t) for t in types]
        self._ranks: Int64Array = np.empty(0, np.int64)

    def __len__(self) -> int:
        """Return the number of groups seen."""
        return len(self._numbers) if self.types else 1

    def encode(self, columns: Sequence[pa.ChunkedArray]) -> Int64Array:
        """Return each row's group number, giving new numbers to new groups."""
        if not self.types:
            raise ValueError("a grouping without keys has nothing to encode")
        codes, first = _distinct_rows([_codes(c) for c in columns])
        values = [_bytes(c.take(pa.array(first))).to_pylist() for c in columns]
        numbers = np.fromiter((self._number(row) for row in zip(*values, strict=True)), np.int64, len(first))
        return numbers[codes]

    def keys(self, position: int, groups: Int64Array) -> pa.Array:
        """Return one key column's values for the groups given."""
        known, stored = self._arrays[position], self._columns[position]
        if len(known) < len(stored):
            fresh = _array(stored[len(known) :], self.types[position])
            known = self._arrays[position] = pa.concat_arrays([known, fresh])
        return known.take(pa.array(groups))

    def ranks(self) -> Int64Array:
        """Return each group's place in the order of its keys: NULL first, NaN last."""
        if len(self._ranks) < len(self._numbers):
            every = np.arange(len(self._numbers), dtype=np.int64)
            order = _sorted([self.keys(i, every) for i in range(len(self.types))])
            self._ranks = np.empty(len(order), np.int64)
            self._ranks[order] = every
        return self._ranks

    def _number(self, row: tuple[Any, ...]) -> int:
        """Look a group up, or enter it."""
        key = tuple(_hashable(v) for v in row)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            for column, value in zip(self._columns, row, strict=True):
                column.append(value)
        return number


def _bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Read strings as bytes: Spark does not check that they are UTF-8."""
    return column.cast(pa.binary()) if pa.types.is_string(column.type) else column


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Make an array of keys, strings from their bytes."""
    return pa.array(values, pa.binary()).view(type_) if pa.types.is_string(type_) else pa.array(values, type_)


def _codes(column: pa.ChunkedArray) -> Int64Array:
    """Number a column's distinct values within this call; NULL is a value."""
    if pa.types.is_nested(column.type):
        seen: dict[Hashable, int] = {}
        return np.array([seen.setdefault(_hashable(v), len(seen)) for v in column.to_pylist()], np.int64)
    encoded = _bytes(column).combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def _distinct_rows(codes: Sequence[Int64Array]) -> tuple[Int64Array, Int64Array]:
    """Number distinct rows of several code columns; also say where each first stands."""
    combined = codes[0]
    for more in codes[1:]:
        width = int(more.max(initial=0)) + 1
        _, combined = np.unique(combined * width + more, return_inverse=True)
    _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
    return inverse.astype(np.int64), first.astype(np.int64)


def _hashable(value: Any) -> Hashable:
    """Make a key value a dictionary key: NaN equal to itself, lists and structs frozen."""
    if isinstance(value, float) and math.isnan(value):
        return _NAN
    if isinstance(value, list):
        return tuple(_hashable(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, _hashable(v)) for k, v in value.items())
    return value  # type: ignore[no-any-return]


def _sorted(keys: Sequence[pa.Array]) -> Int64Array:
    """Return the order of rows by several keys as Spark orders them."""
    columns: dict[str, pa.Array] = {}
    for number, key in enumerate(keys):
        if pa.types.is_string(key.type):
            key = key.cast(pa.binary())
        if pa.types.is_nested(key.type) or pa.types.is_null(key.type):
            key = pa.array([None if v is None else repr(v) for v in key.to_pylist()], pa.string())
        if pa.types.is_floating(key.type):  # Arrow puts NaN beside NULL
            columns[f"{number}n"] = pc.is_nan(key)
            key = pc.if_else(pc.is_nan(key), pa.scalar(0.0, key.type), key)
        columns[f"{number}v"] = key
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending", "at_start") for name in columns])
    return np.asarray(order.to_numpy(), np.int64)
