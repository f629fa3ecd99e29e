"""Computes distinct counts and percentiles over ranges of slices from sorted, counted values.

Only the counts are copied for a range of slices, so that all its columns are read while they are in the processor's
cache; whole tables are made only for callers that ask for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

import numpy as np

from penstock.evaluate.components.component import Array
from penstock.evaluate.components.frequencies import in_order
from penstock.evaluate.components.frequency_tables import (
    FlatTables,
    FrequencyTables,
    Ranked,
    at_ranks,
    bounds_of,
    counted,
    join_tables,
    tables_of,
)
from penstock.evaluate.windows.value_pool import ValuePool
from penstock.model.arrays import Int64Array
from penstock.model.sorting import stable_order

MANY: Final = 4  # times as many rows as arrive, from which on these are put between them: few are sorted with them
SHORT: Final = 16  # passes over a line that cost as much as to gather and sort it
MOST_GATHERED: Final = 4_000_000  # lines, or tables, at once
MOST_NUMBERS: Final = 1 << 62  # that are told apart in 64 bits


@dataclass(slots=True)
class CountedValues:
    """What is stored of some slices: a column, a value and how often it came, each."""

    columns: Int64Array
    values: Array
    slices: Int64Array
    weights: Int64Array

    @staticmethod
    def none(dtype: np.dtype[Any]) -> CountedValues:
        """Return no rows."""
        empty = np.empty(0, np.int64)
        return CountedValues(empty, np.empty(0, dtype), empty, empty)

    @staticmethod
    def joined(parts: list[CountedValues]) -> CountedValues:
        """Put rows one after the other."""
        filled = [part for part in parts if len(part.columns)] or parts[:1]
        if len(filled) == 1:
            return filled[0]
        columns = ((p.columns, p.values, p.slices, p.weights) for p in filled)
        return CountedValues(*(np.concatenate(arrays) for arrays in zip(*columns, strict=True)))

    def take(self, rows: Array) -> CountedValues:
        """Return some of the rows."""
        return CountedValues(self.columns[rows], self.values[rows], self.slices[rows], self.weights[rows])

    def ordered(self) -> CountedValues:
        """Sort by column, then value."""
        order = in_order(self.values, self.columns)
        return self if order is None else self.take(order)

    def with_sorted(self, arrived: CountedValues) -> CountedValues:
        """Put sorted rows between these, which are sorted too; equal ones come after those that are there.

        Each finds its place by halving, so no row is compared with another but those that arrive.
        """
        if len(self.columns) < MANY * len(arrived.columns):
            return CountedValues.joined([self, arrived]).ordered()
        at = self._places(arrived) + np.arange(len(arrived.columns))
        before = np.ones(len(self.columns) + len(at), np.bool_)
        before[at] = False
        found = []
        for old, new in zip(self._arrays, arrived._arrays, strict=True):
            whole = np.empty(len(before), np.result_type(old, new))
            whole[before], whole[at] = old, new
            found.append(whole)
        return CountedValues(*found)

    def _places(self, arrived: CountedValues) -> Int64Array:
        """Return for each row how many of these come before it: all of columns before its own, and of its own some."""
        if (numbered := self._numbered(arrived)) is not None:
            return np.searchsorted(*numbered, side="right")
        low = np.searchsorted(self.columns, arrived.columns)
        high = np.searchsorted(self.columns, arrived.columns, side="right")
        last = arrived.values.dtype.kind == "f" and np.isnan(arrived.values)  # NaN is after all numbers, as sorted
        while (open_ := low < high).any():
            middle = (low + high) // 2
            goes_on = (self.values[np.minimum(middle, len(self.values) - 1)] <= arrived.values) | last
            low, high = np.where(open_ & goes_on, middle + 1, low), np.where(open_ & ~goes_on, middle, high)
        return low

    def _numbered(self, arrived: CountedValues) -> tuple[Int64Array, Int64Array] | None:
        """Write column and value as one number, of these rows and of others; None: there are too many for one.

        Then a place is found in one step of numpy, and not in one for each halving.
        """
        if not self.values.dtype.kind == arrived.values.dtype.kind == "i" or not min(
            map(len, (self.columns, arrived.columns))
        ):
            return None
        least = min(int(self.values.min()), int(arrived.values.min()))
        span = max(int(self.values.max()), int(arrived.values.max())) - least + 1
        if span * (max(int(self.columns[-1]), int(arrived.columns[-1])) + 1) > MOST_NUMBERS:
            return None
        here, there = ((part.values - least) + part.columns * span for part in (self, arrived))
        return here, there

    @property
    def _arrays(self) -> tuple[Array, ...]:
        """Return all columns."""
        return self.columns, self.values, self.slices, self.weights

    @property
    def nbytes(self) -> int:
        """Return how much memory the rows take."""
        return int(self.columns.nbytes + self.values.nbytes + self.slices.nbytes + self.weights.nbytes)


class ColumnLines(ABC):
    """Values in order of column and value, with the counts of any stretch of slices."""

    def __init__(
        self, columns: Int64Array, values: Array, pairs: Int64Array | None, width: int, pool: ValuePool | None
    ) -> None:
        """``pairs`` are where runs of equal lines begin, if there are any; ``pool`` has the values of their numbers."""
        self.columns, self.values, self.pairs, self._pool = columns, values, pairs, pool
        self.bounds = bounds_of(np.bincount(columns, minlength=width))  # of the columns

    @abstractmethod
    def weights(self, lo: int, hi: int) -> Int64Array:
        """Return each line's count in slices lo … hi - 1."""

    def gathered(self, lo: Int64Array, hi: Int64Array) -> FlatTables | None:
        """Make the tables of all columns of many short stretches at once; None: each is sooner read on its own."""
        return None

    @cached_property
    def numbers(self) -> Array:
        """Return the values as doubles."""
        return np.asarray(self.values, np.float64)

    @cached_property
    def _pair_bounds(self) -> Int64Array:
        """Return where each column's distinct values begin and end among all of them."""
        return self.bounds if self.pairs is None else np.searchsorted(self.pairs, self.bounds)

    def distinct(self, lo: int, hi: int) -> Int64Array:
        """Count the distinct values of each column in a stretch."""
        weights = self.weights(lo, hi)
        if self.pairs is not None and len(weights):
            weights = np.add.reduceat(weights, self.pairs)
        return np.diff(bounds_of(weights > 0)[self._pair_bounds])

    def at_ranks(self, lo: int, hi: int, ranks: Sequence[float], columns: Int64Array) -> Ranked:
        """Return some columns' values at each rank in a stretch, and which columns hold none."""
        if self._pool is not None:
            return self.tables(lo, hi)[columns].at_ranks(ranks)
        upto = bounds_of(self.weights(lo, hi))
        return at_ranks(self.numbers, upto, (self.bounds[columns], self.bounds[columns + 1]), ranks)

    def tables(self, lo: int, hi: int) -> FlatTables:
        """Make the tables of all columns in a stretch."""
        weights = self.weights(lo, hi)
        held = np.flatnonzero(weights)
        found = counted(self.columns[held], self.values[held], weights[held], len(self.bounds) - 1)
        return found if self._pool is None else self._pool.decode(found)


class SlicedLines(ColumnLines):
    """Lines of one slice each: those of the stretch count, the others do not."""

    def __init__(self, rows: CountedValues, pairs: Int64Array, depth: int, width: int, pool: ValuePool | None) -> None:
        """Keep the lines as they are."""
        super().__init__(rows.columns, rows.values, None if len(pairs) == len(rows.values) else pairs, width, pool)
        self._slices = rows.slices.astype(np.int32)  # of slices in memory there are fewer
        self._counts = rows.weights

    @cached_property
    def _slice_bounds(self) -> Int64Array:
        """Return where the lines of each slice begin and end, in order of slices."""
        return bounds_of(np.bincount(self._slices))

    @cached_property
    def _by_slice(self) -> Int64Array:
        """Return the lines in order of their slices; whoever reads all of them by passes has no need of that."""
        return stable_order(self._slices, len(self._slice_bounds))

    def gathered(self, lo: Int64Array, hi: Int64Array) -> FlatTables | None:
        """Make the tables of all columns of many stretches, if together they hold far fewer lines than all passes."""
        bounds = self._slice_bounds
        first, width, lines = bounds[np.minimum(lo, len(bounds) - 1)], len(self.bounds) - 1, len(self.values)
        lengths = bounds[np.minimum(hi, len(bounds) - 1)] - first
        places = bounds_of(lengths)
        if places[-1] * SHORT > len(lo) * lines or max(places[-1], len(lo) * width) > MOST_GATHERED:
            return None
        line = self._by_slice[np.arange(places[-1]) + np.repeat(first - places[:-1], lengths)]
        keys = np.repeat(np.arange(len(lo)), lengths) * lines + line
        keys.sort()
        stretch, line = np.divmod(keys, max(1, lines))
        owner = stretch * width + self.columns[line]
        found = counted(owner, self.values[line], self._counts[line], len(lo) * width)
        return found if self._pool is None else self._pool.decode(found)

    def weights(self, lo: int, hi: int) -> Int64Array:
        """Return each line's count in slices lo … hi - 1."""
        within = (self._slices >= lo) & (self._slices < hi)
        return np.asarray(self._counts * within, np.int64)


class SummedLines(ColumnLines):
    """Lines of all slices: running sums by slice, so that a stretch is one subtraction."""

    def __init__(self, rows: CountedValues, pairs: Int64Array, depth: int, width: int, pool: ValuePool | None) -> None:
        """Add the counts of equal values up, slice after slice."""
        super().__init__(rows.columns[pairs], rows.values[pairs], None, width, pool)
        line = np.repeat(np.arange(len(pairs)), np.diff(pairs, append=len(rows.values)))
        upto = np.zeros((depth + 1, len(pairs)), np.int64)
        np.add.at(upto.reshape(-1), (rows.slices + 1) * len(pairs) + line, rows.weights)
        self._upto = np.cumsum(upto, axis=0, out=upto)

    def weights(self, lo: int, hi: int) -> Int64Array:
        """Return each line's count in slices lo … hi - 1."""
        return cast("Int64Array", self._upto[hi] - self._upto[lo])


class FrequencyRanges:
    """Stretches of slices, to be read as an array [stretch, column] of tables."""

    def __init__(self, lines: ColumnLines, lo: Int64Array, hi: Int64Array) -> None:
        """Read lines as they are now, from ``lo`` to before ``hi``."""
        self.lines, self.lo, self.hi = lines, lo, hi

    @property
    def array(self) -> Array:
        """Return the stretches as the array that they stand for."""
        return cast("Array", self)

    def __getitem__(self, asked: tuple[Int64Array, Int64Array]) -> FrequencyTables:
        """Return the tables of pairs of stretch and column; stretches ascend."""
        stretches, columns = asked
        if (gathered := self.lines.gathered(self.lo, self.hi)) is not None:
            return gathered[stretches * (len(self.lines.bounds) - 1) + columns]
        bounds = np.searchsorted(stretches, np.arange(len(self.lo) + 1)).tolist()
        between = zip(self.lo.tolist(), self.hi.tolist(), bounds, bounds[1:], strict=False)
        return TablesOnDemand(
            [(self.lines, lo, hi, columns[first:last]) for lo, hi, first, last in between if first < last]
        )


class TablesOnDemand(FrequencyTables):
    """Tables of columns of stretches, made only as far as somebody asks."""

    def __init__(self, parts: Sequence[tuple[ColumnLines, int, int, Int64Array]]) -> None:
        """Take for each stretch its lines, where it begins and ends, and the columns asked for."""
        self._parts = parts

    def __len__(self) -> int:
        """Count the tables."""
        return sum(len(columns) for *_, columns in self._parts)

    @cached_property
    def flat(self) -> FlatTables:
        """Make the tables."""
        made = [lines.tables(lo, hi)[columns] for lines, lo, hi, columns in self._parts]
        return join_tables(made) if made else tables_of(np.empty(0, object)).flat

    @cached_property
    def lengths(self) -> Int64Array:
        """Return the number of distinct values of each table."""
        counts = [lines.distinct(lo, hi)[columns] for lines, lo, hi, columns in self._parts]
        return np.concatenate(counts) if counts else np.empty(0, np.int64)

    @property
    def longest(self) -> int:
        """Return a number of values that no table exceeds."""
        stored = {id(lines): lines for lines, *_ in self._parts}.values()
        return max((int(np.diff(lines.bounds).max(initial=0)) for lines in stored), default=0)

    def at_ranks(self, ranks: Sequence[float]) -> Ranked:
        """Return the tables' values at positions rank · (n - 1)."""
        each = [lines.at_ranks(lo, hi, ranks, columns) for lines, lo, hi, columns in self._parts]
        if not each:
            return [np.empty(0) for _ in ranks], np.empty(0, np.bool_)
        answers = [np.concatenate(parts) for parts in zip(*(found for found, _ in each), strict=True)]
        return answers, np.concatenate([missing for _, missing in each])
