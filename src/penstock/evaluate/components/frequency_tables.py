"""Stores many frequency tables of numbers as three flat arrays, to merge and read them at once.

`FrequencyTables` stand in for an array of `Frequencies` objects, None where a table holds nothing. They become such an
array where code asks numpy for it, so that only code which gains from flat arrays has to know of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from penstock.evaluate.components.component import Array, Column, Component
from penstock.evaluate.components.frequencies import (
    Frequencies,
    added_up,
    equal_added,
    list_bounds,
    merge_frequencies,
    objects,
    read_counts,
    read_values,
    table_of,
)
from penstock.evaluate.components.reading import whole
from penstock.model.arrays import BoolArray, Int64Array

Ranked = tuple[list[Array], BoolArray]  # values at each rank, and which tables hold none


class FrequencyTables(ABC):
    """Frequency tables, one after the other."""

    dtype = np.dtype(object)  # of the array that they stand for

    @property
    @abstractmethod
    def flat(self) -> FlatTables:
        """Return the tables as flat arrays."""

    @abstractmethod
    def __len__(self) -> int:
        """Count the tables, those that hold nothing included."""

    @property
    @abstractmethod
    def lengths(self) -> Int64Array:
        """Return the number of distinct values of each table."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Return a number of values that no table exceeds."""

    @abstractmethod
    def at_ranks(self, ranks: Sequence[float]) -> Ranked:
        """Return the tables' values at positions rank · (n - 1), linear between the two nearest ones."""

    @property
    def shape(self) -> tuple[int]:
        """Return the shape of the array that they stand for."""
        return (len(self),)

    @property
    def array(self) -> Array:
        """Return the tables as what they stand for."""
        return cast("Array", self)

    @property
    def nbytes(self) -> int:
        """Return how much memory the tables take."""
        return int(self.flat.values.nbytes + self.flat.weights.nbytes + self.flat.bounds.nbytes)

    def __iter__(self) -> Iterator[Frequencies | None]:
        """Return table after table."""
        return iter(np.asarray(self).tolist())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Make an object of each table."""
        flat = self.flat
        each = pairwise(flat.bounds.tolist())
        return objects([table_of(flat.values[lo:hi], flat.weights[lo:hi]) for lo, hi in each])

    def __getitem__(self, rows: Int64Array | BoolArray) -> FrequencyTables:
        """Take some of the tables."""
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        if len(rows) == len(self) and bool((rows == np.arange(len(rows))).all()):
            return self
        flat, lengths = self.flat, self.lengths[rows]
        bounds = bounds_of(lengths)
        places = np.arange(bounds[-1]) + np.repeat(flat.bounds[rows] - bounds[:-1], lengths)
        return FlatTables(flat.values[places], flat.weights[places], bounds)

    def spread(self, held: BoolArray) -> FlatTables:
        """Give the tables, in order, the places that hold one; the others hold nothing."""
        lengths = np.zeros(len(held), np.int64)
        lengths[held] = self.lengths
        return FlatTables(self.flat.values, self.flat.weights, bounds_of(lengths))

    def reduced(self, starts: Int64Array) -> FlatTables:
        """Merge each run of tables, given where runs begin."""
        owner = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(self)))
        found = added_up(self.flat.values, self.flat.weights, np.repeat(owner, self.lengths))
        return _tables(*found, len(starts))


class FlatTables(FrequencyTables):
    """Values in order, how often each came, and where each table begins and ends."""

    def __init__(self, values: Array, weights: Int64Array, bounds: Int64Array) -> None:
        """Take flat values and counts; table i is what stands between ``bounds[i]`` and ``bounds[i + 1]``."""
        self.values, self.weights, self.bounds = values, weights, bounds

    @property
    def flat(self) -> FlatTables:
        """Return the tables."""
        return self

    def __len__(self) -> int:
        """Count the tables, those that hold nothing included."""
        return len(self.bounds) - 1

    @property
    def lengths(self) -> Int64Array:
        """Return the number of distinct values of each table."""
        return np.diff(self.bounds)

    @property
    def longest(self) -> int:
        """Return the most values that a table holds."""
        return int(self.lengths.max(initial=0))

    def at_ranks(self, ranks: Sequence[float]) -> Ranked:
        """Return the tables' values at positions rank · (n - 1)."""
        upto = bounds_of(self.weights)
        return at_ranks(np.asarray(self.values, np.float64), upto, (self.bounds[:-1], self.bounds[1:]), ranks)


def read_tables(component: Component, column: Column) -> FlatTables:
    """Read tables from structs of sorted values and where the runs of each begin."""
    array = whole(column)
    lists = pc.struct_field(array, [0])
    weights, lengths = read_counts(pc.struct_field(array, [1]))
    assert bool((np.diff(list_bounds(lists)) == lengths).all()), "values and their counts differ in number"
    return FlatTables(read_values(component, lists.flatten()), weights, bounds_of(lengths))


def tables_of(plane: Array) -> FrequencyTables:
    """Take an array of tables, all plain counts of numbers, apart."""
    if isinstance(plane, FrequencyTables):
        return plane
    held = [table for table in plane if table is not None]
    bounds = bounds_of([0 if table is None else len(table) for table in plane])
    if not held:
        return FlatTables(np.empty(0, np.int64), np.empty(0, np.int64), bounds)
    return FlatTables(np.concatenate([t.values for t in held]), np.concatenate([t.weights for t in held]), bounds)


def join_tables(parts: Sequence[FrequencyTables]) -> FlatTables:
    """Put tables one after the other."""
    filled = [part.flat for part in parts if len(part.flat.values)] or [part.flat for part in parts[:1]]
    values, weights = (np.concatenate(arrays) for arrays in zip(*((p.values, p.weights) for p in filled), strict=True))
    return FlatTables(values, weights, bounds_of(np.concatenate([part.lengths for part in parts])))


def join_arrays(parts: Sequence[Any]) -> Array:
    """Concatenate arrays, or tables that stand for them."""
    filled = [part for part in parts if len(part)] or parts[:1]
    if len(filled) == 1:
        return cast("Array", filled[0])
    if all(isinstance(part, FrequencyTables) for part in filled):
        return join_tables(filled).array
    return np.concatenate([np.asarray(part) for part in filled])


class JoinedTables(FrequencyTables):
    """Tables one after the other, each part read as it reads itself."""

    def __init__(self, parts: Sequence[FrequencyTables]) -> None:
        """Take tables of one component."""
        self._parts = parts

    @cached_property
    def flat(self) -> FlatTables:
        """Make the tables of all parts."""
        return join_tables(self._parts)

    def __len__(self) -> int:
        """Count the tables."""
        return sum(map(len, self._parts))

    @cached_property
    def lengths(self) -> Int64Array:
        """Return the number of distinct values of each table."""
        return np.concatenate([part.lengths for part in self._parts])

    @property
    def longest(self) -> int:
        """Return a number of values that no table exceeds."""
        return max(part.longest for part in self._parts)

    def at_ranks(self, ranks: Sequence[float]) -> Ranked:
        """Return the tables' values at positions rank · (n - 1)."""
        each = [part.at_ranks(ranks) for part in self._parts]
        answers = [np.concatenate(parts) for parts in zip(*(found for found, _ in each), strict=True)]
        return answers, np.concatenate([missing for _, missing in each])


def join_lazily(parts: Sequence[Any]) -> Array:
    """Concatenate arrays; tables that stand for them are made only as far as somebody asks."""
    if all(isinstance(part, FrequencyTables) for part in parts):
        return JoinedTables(parts).array
    return np.concatenate([np.asarray(part) for part in parts])


def merge_many(groups: Sequence[Sequence[Frequencies]]) -> Sequence[Any]:
    """Add up the tables of each of many groups: all in one go where values are numbers and weights are counts."""
    tables = [table for group in groups for table in group]
    plain = all(not t.overflown and not t.negative and not t.weights.dtype.hasobject for t in tables)
    if len(groups) == 1 or not plain or tables[0].values.dtype.hasobject:
        return [merge_frequencies(group) for group in groups]
    return list(tables_of(objects(tables)).reduced(bounds_of([len(group) for group in groups])[:-1]))


def counted(owner: Int64Array, values: Array, weights: Int64Array, tables: int) -> FlatTables:
    """Make tables of rows in order of table and value, adding the counts of equal ones."""
    return _tables(*equal_added(values, weights, owner), tables)


def _tables(values: Array, weights: Array, owner: Array | None, tables: int) -> FlatTables:
    """Make tables of the values that each of them owns."""
    assert owner is not None
    return FlatTables(values, weights, bounds_of(np.bincount(owner, minlength=tables)))


def at_ranks(values: Array, upto: Int64Array, between: tuple[Int64Array, Int64Array], ranks: Sequence[float]) -> Ranked:
    """Find values at positions rank · (n - 1) of tables; ``upto`` counts the rows before each value, of all tables.

    Tables stand ``between`` places where they begin and end. Percentiles are Spark's, linear between two values.
    """
    before = upto[between[0]]
    totals, found = upto[between[1]] - before, []
    for rank in ranks:
        position = np.maximum(totals - 1, 0).astype(np.float64) * rank
        below, above = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
        places = (np.searchsorted(upto[1:], before + at + 1) for at in (below, above))
        low, high = (values[np.minimum(place, len(values) - 1)] if len(values) else position for place in places)
        with np.errstate(all="ignore"):  # written as Spark 4.3 does, so that the last digit is the same
            mixed = low + (position - below) * (high - low)
        found.append(np.where((above == below) | (low == high), low, mixed))
    return found, totals == 0


def bounds_of(lengths: npt.ArrayLike) -> Int64Array:
    """Return where stretches of these lengths begin and end, one after the other."""
    each = np.asarray(lengths)
    found = np.zeros(len(each) + 1, np.int64)
    np.cumsum(each, out=found[1:])
    return found
