"""Numbers the groups seen under one list of keys, and finds the keys of a group again."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import repeat
from sys import getsizeof
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.expressions.raw_times import raw_type, raw_values
from penstock.model.arrays import Int64Array
from penstock.model.object_sizes import NUMBER, SLOT, bytes_of_all

_PLAIN = (str, bytes, int, type(None))  # equal to themselves, and hashable
_NAN = object()  # NaN is one group, though NaN ≠ NaN in Python


class KeyValues:
    """The distinct values of a key column: as they are kept, and as a dictionary finds them."""

    def __init__(self, values: list[Any]) -> None:
        """Take values in the order of their codes."""
        self.values = values
        plain = all(isinstance(v, _PLAIN) for v in values)
        self.keys: Sequence[Hashable] = values if plain else [_hashable(v) for v in values]


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

    @property
    def nbytes(self) -> int:
        """Return about how much memory the keys take; any thread may ask."""
        count, columns = len(self._numbers), [list_ for list_ in self._columns]
        together = getsizeof(()) + SLOT * len(columns) if len(columns) > 1 else 0  # keys of several columns are tuples
        listed = sum(getsizeof(column) + bytes_of_all(column) - SLOT * len(column) for column in columns)
        arrays = int(sum(array.nbytes for array in list(self._arrays))) + self._ranks.nbytes
        return getsizeof(self._numbers) + count * (NUMBER + together) + listed + arrays

    def encode(self, columns: Sequence[pa.ChunkedArray]) -> Int64Array:
        """Return each row's group number, giving new numbers to new groups."""
        told = [told_apart(column) for column in columns]
        return self.number([codes for codes, _ in told], [values for _, values in told])

    def number(self, codes: Sequence[Int64Array], values: Sequence[KeyValues]) -> Int64Array:
        """Return each row's group number; ``codes`` are the places of its keys among the values of each column."""
        if not self.types:
            raise ValueError("a grouping without keys has nothing to number")
        combined, first = distinct_rows(codes)
        asked = np.flatnonzero(first >= 0)
        places = [column[first[asked]].tolist() for column in codes]
        listed = [list(map(v.keys.__getitem__, at)) for v, at in zip(values, places, strict=True)]
        keys: Sequence[Hashable] = list(zip(*listed, strict=True)) if len(listed) > 1 else listed[0]
        found = np.fromiter(map(self._numbers.get, keys, repeat(-1)), np.int64, len(keys))
        for i in np.flatnonzero(found < 0).tolist():
            found[i] = self._enter(keys[i], [v.values[at[i]] for v, at in zip(values, places, strict=True)])
        numbers = np.empty(len(first), np.int64)
        numbers[asked] = found
        return numbers[combined]

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
            order = sort_keys([self.keys(i, every) for i in range(len(self.types))])
            ranks = np.empty(len(order), np.int64)
            ranks[order] = every
            self._ranks = ranks  # whole: others may read them now
        return self._ranks

    def keep(self, numbers: Int64Array) -> Int64Array:
        """Forget all groups but some, given in ascending order; return each old number's new one, −1 if it is gone."""
        moved = np.full(len(self._numbers), -1, np.int64)
        moved[numbers] = np.arange(len(numbers))
        self._numbers = {key: int(moved[old]) for key, old in self._numbers.items() if moved[old] >= 0}
        self._columns = [[column[old] for old in numbers.tolist()] for column in self._columns]
        self._arrays = [pa.array([], t) for t in self.types]
        self._ranks = np.empty(0, np.int64)
        return moved

    def _enter(self, key: Hashable, row: Sequence[Any]) -> int:
        """Give a group a number, unless values told apart were one key (0 and −0) and it has got one just now."""
        number = self._numbers.setdefault(key, len(self._columns[0]))
        if number == len(self._columns[0]):
            for column, value in zip(self._columns, row, strict=True):
                column.append(value)
        return number


def _raw_type(type_: pa.DataType) -> pa.DataType:
    """Choose what keys of a type are kept as: Spark's strings need not be UTF-8, nor its years have four digits."""
    return pa.binary() if pa.types.is_string(type_) else raw_type(type_)


def _raw(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Read a key column as what it is kept as."""
    return column.cast(_raw_type(column.type))


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Make an array of keys from what they are kept as."""
    raw = _raw_type(type_)
    made = pa.array(values, raw)
    if raw == type_:
        return made
    return made.cast(type_) if pa.types.is_nested(type_) else made.view(type_)


def value_codes(column: pa.ChunkedArray) -> Int64Array:
    """Number a column's distinct values within this call; NULL is a value."""
    return _encoded(column)[0]


def told_apart(column: pa.ChunkedArray) -> tuple[Int64Array, KeyValues]:
    """Number a column's distinct values within this call, and list them; NULL is a value."""
    codes, values = _encoded(column)
    return codes, KeyValues(values if isinstance(values, list) else values.to_pylist())


def _encoded(column: pa.ChunkedArray) -> tuple[Int64Array, pa.Array | list[Any]]:
    """Number a column's distinct values in the order they appear in; also return them, as what they are kept as."""
    if pa.types.is_nested(column.type):
        seen: dict[Hashable, int] = {}
        rows = raw_values(column)
        codes = np.array([seen.setdefault(_hashable(v), len(seen)) for v in rows], np.int64)
        return codes, [rows[i] for i in np.unique(codes, return_index=True)[1].tolist()]
    encoded = _raw(column).combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64), encoded.dictionary


def distinct_rows(codes: Sequence[Int64Array]) -> tuple[Int64Array, Int64Array]:
    """Number distinct rows of several code columns; also say where each number first stands, −1: nowhere."""
    combined = codes[0]
    for more in codes[1:]:
        combined = _renumbered(combined * (int(more.max(initial=0)) + 1) + more)
    first = np.full(int(combined.max(initial=-1)) + 1, -1, np.int64)
    first[combined[::-1]] = np.arange(len(combined))[::-1]  # of several, the last one written stays
    return combined, first


def _renumbered(numbers: Int64Array) -> Int64Array:
    """Give numbers small ones in their place, equal ones alike, in order of appearance."""
    encoded = pa.array(numbers).dictionary_encode()
    return np.asarray(encoded.indices.to_numpy(), np.int64)


def _hashable(value: Any) -> Hashable:
    """Make a key value a dictionary key: NaN equal to itself, lists and structs frozen."""
    if isinstance(value, float) and math.isnan(value):
        return _NAN
    if isinstance(value, list):
        return tuple(_hashable(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, _hashable(v)) for k, v in value.items())
    return value  # type: ignore[no-any-return]


def sort_keys(keys: Sequence[pa.Array]) -> Int64Array:
    """Return the order of rows by several keys as Spark orders them."""
    return sort_rows(keys, [(False, True)] * len(keys))


def sort_rows(keys: Sequence[pa.Array], directions: Sequence[tuple[bool, bool]]) -> Int64Array:
    """Return the order of rows by keys, of each whether it descends and has its NULLs first; equal rows stay."""
    columns: dict[str, pa.Array] = {}
    by: list[tuple[str, str, str]] = []
    for number, (key, (descending, nulls_first)) in enumerate(zip(keys, directions, strict=True)):
        how = "descending" if descending else "ascending", "at_start" if nulls_first else "at_end"
        if pa.types.is_string(key.type):
            key = key.cast(pa.binary())
        if pa.types.is_nested(key.type) or pa.types.is_null(key.type):
            key = rank_nested(raw_values(key))
        if pa.types.is_floating(key.type):  # Arrow puts NaN beside NULL
            columns[f"{number}n"] = pc.is_nan(key)
            by.append((f"{number}n", *how))
            key = pc.if_else(pc.is_nan(key), pa.scalar(0.0, key.type), key)
        columns[f"{number}v"] = key
        by.append((f"{number}v", *how))
    order = pc.sort_indices(pa.table(columns), sort_keys=by)
    return np.asarray(order.to_numpy(), np.int64)


def rank_nested(values: list[Any]) -> pa.Array:
    """Give lists and structs numbers in Spark's order: element by element, NULL first, NaN last, the shorter first."""
    places = {place: i for i, place in enumerate(sorted({_place(v) for v in values if v is not None}))}
    return pa.array([None if v is None else places[_place(v)] for v in values], pa.int64())


def _place(value: Any) -> tuple[Any, ...]:
    """Make a value comparable with others of its type."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, list):
        return (1, tuple(_place(v) for v in value))
    if isinstance(value, dict):
        return (1, tuple(_place(v) for v in value.values()))
    return (1, value)
