"""Aggregates columns of rows, run by run: all rows of a run belong to one partial.

What Spark's hash aggregation does in executors is done here over rows that were sent to the driver. Results are Arrow
columns as Spark would send them, so that whoever reads partials cannot tell where these were made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.components.component import Array
from penstock.evaluate.components.reading import comparable, ordered_type, whole
from penstock.evaluate.expressions.raw_times import raw_values
from penstock.evaluate.groups import rank_nested, sort_keys
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.sorting import stable_order

T = TypeVar("T")


class RowColumn:
    """A column of a batch's rows; what several partials need of it is computed once."""

    def __init__(self, column: pa.Array | pa.ChunkedArray) -> None:
        """Take a column as Spark sent it."""
        self.array = whole(column)
        self._kept: dict[Hashable, Any] = {}

    def kept(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return something made of the column for a component, made once however many groupings ask."""
        if name not in self._kept:
            self._kept[name] = make()
        found: T = self._kept[name]
        return found

    @cached_property
    def valid(self) -> BoolArray | None:
        """Tell which rows have a value; None: all have."""
        if not self.array.null_count:
            return None
        return np.asarray(self.array.is_valid().to_numpy(zero_copy_only=False), np.bool_)

    @cached_property
    def flags(self) -> BoolArray:
        """Read Booleans; NULL is false."""
        return np.asarray(self.array.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)

    @cached_property
    def numbers(self) -> Array:
        """Read whole numbers, times or doubles, 0 for NULL."""
        return comparable(self.array.type, self.array, 0)[0]

    @cached_property
    def has_numbers(self) -> bool:
        """Tell whether values are numbers to numpy, in an order that is Spark's."""
        return not pa.types.is_nested(self.array.type) and not ordered_type(self.array.type).hasobject

    @cached_property
    def ranks(self) -> Int64Array:
        """Number the distinct values in Spark's order: NULL is 0, NaN comes last, −0.0 is 0.0."""
        if self.has_numbers:
            return self._ranked_numbers()
        if pa.types.is_nested(self.array.type):
            places = rank_nested(raw_values(self.array))
            return np.asarray(pc.add(places, 1).fill_null(0).to_numpy(zero_copy_only=False), np.int64)
        plain = self.array.cast(pa.binary()) if pa.types.is_string(self.array.type) else self.array
        encoded = plain.dictionary_encode()
        order = sort_keys([encoded.dictionary])
        places = np.empty(len(order) + 1, np.int64)
        places[order] = np.arange(1, len(order) + 1)
        places[-1] = 0  # NULL
        codes = np.asarray(encoded.indices.fill_null(len(order)).to_numpy(zero_copy_only=False), np.int64)
        return places[codes]

    def _ranked_numbers(self) -> Int64Array:
        """Number distinct numbers in order."""
        numbers = self.numbers + 0.0 if self.numbers.dtype == np.float64 else self.numbers
        _, ranks = np.unique(numbers, return_inverse=True)  # all NaN are one
        ranks = ranks.astype(np.int64) + 1
        return ranks if self.valid is None else np.where(self.valid, ranks, 0)


class RowRuns:
    """Rows in the order of the partials that they belong to, and where the rows of each begin."""

    def __init__(self, order: Int64Array, starts: Int64Array) -> None:
        """Take an order of rows and the first place of each run in it; no run is empty."""
        self._order, self.starts = order, starts

    @cached_property
    def order(self) -> Int64Array:
        """Return the rows, run by run."""
        return self._order

    @cached_property
    def firsts(self) -> Int64Array:
        """Return the first row of each run."""
        return self.order[self.starts]

    def __len__(self) -> int:
        """Count the runs."""
        return len(self.starts)

    @cached_property
    def lengths(self) -> Int64Array:
        """Return how many rows each run has."""
        return np.diff(self.starts, append=len(self.order))

    @cached_property
    def owner(self) -> Int64Array:
        """Return the run of each row, in their order."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    def only(self, kept: BoolArray) -> RowRuns:
        """Return some of the runs."""
        lengths = self.lengths[kept]
        return RowRuns(self.order[np.repeat(kept, self.lengths)], np.cumsum(lengths) - lengths)

    def count(self, flags: BoolArray | None) -> Int64Array:
        """Count the rows of each run for which something holds; None: it holds for all."""
        if flags is None:
            return self.lengths
        return np.add.reduceat(flags[self.order], self.starts, dtype=np.int64)

    def total(self, values: Array) -> Array:
        """Add the numbers of each run up."""
        return self.add_up(values[self.order])

    def best(self, values: Array, ordering: np.ufunc) -> Array:
        """Pick the best number of each run."""
        with np.errstate(all="ignore"):
            return np.asarray(ordering.reduceat(values[self.order], self.starts))

    def held(self, column: RowColumn) -> BoolArray | None:
        """Tell which runs hold a value of a column; None: all do."""
        if column.valid is None:
            return None
        held = self.count(column.valid) > 0
        return None if held.all() else held

    def add_up(self, in_order: Array) -> Array:
        """Add numbers up that stand in the order of the runs."""
        with np.errstate(all="ignore"):
            return np.asarray(np.add.reduceat(in_order, self.starts))

    def sums(self, column: RowColumn) -> pa.Array:
        """Add a column up, as Spark's sum does: NULL where a run holds no value."""
        if pa.types.is_decimal(column.array.type):
            return self._decimal_sums(column.array)
        return masked(self.total(column.numbers), self.held(column))

    def _decimal_sums(self, array: pa.Array) -> pa.Array:
        """Add decimals up, in Arrow; the sum has ten digits more than its terms."""
        table = pa.table({"run": self.owner, "x": array.take(pa.array(self.order))})
        found = whole(table.group_by("run", use_threads=False).aggregate([("x", "sum")])["x_sum"])
        return found.cast(pa.decimal128(min(38, array.type.precision + 10), array.type.scale))


class NumberedRuns(RowRuns):
    """Runs of rows of which each has the number of its run: what can be added up in any order needs no sorted rows."""

    def __init__(self, rows: Int64Array, codes: Int64Array, size: int) -> None:
        """Take rows in ascending order, and codes below a size that tell their runs, in the order of the codes."""
        held = np.bincount(codes, minlength=size)
        present = np.flatnonzero(held)
        numbers = np.empty(size, np.int64)
        numbers[present] = np.arange(len(present))
        self._rows, self._place, lengths = rows, numbers[codes], held[present]
        super().__init__(rows, np.cumsum(lengths) - lengths)

    @cached_property
    def order(self) -> Int64Array:
        """Return the rows, run by run: sorted when somebody asks."""
        return self._rows[stable_order(self._place, len(self))]

    @cached_property
    def firsts(self) -> Int64Array:
        """Return the first row of each run."""
        found = np.empty(len(self), np.int64)
        found[self._place[::-1]] = self._rows[::-1]  # of several, the last one written stays
        return found

    @cached_property
    def lengths(self) -> Int64Array:
        """Return how many rows each run has."""
        return np.diff(self.starts, append=len(self._rows))

    def count(self, flags: BoolArray | None) -> Int64Array:
        """Count the rows of each run for which something holds; None: it holds for all."""
        return self.lengths if flags is None else np.bincount(self._place[flags[self._rows]], minlength=len(self))

    def total(self, values: Array) -> Array:
        """Add the numbers of each run up."""
        taken = values[self._rows]
        if taken.dtype == np.float64:
            return np.bincount(self._place, taken, len(self))
        found = np.zeros(len(self), taken.dtype)
        np.add.at(found, self._place, taken)
        return found

    def best(self, values: Array, ordering: np.ufunc) -> Array:
        """Pick the best number of each run."""
        if ordering is np.bitwise_xor:  # it must not meet a run's first number twice
            return super().best(values, ordering)
        found = values[self.firsts]
        with np.errstate(all="ignore"):
            ordering.at(found, self._place, values[self._rows])
        return found


def masked(values: Array, held: BoolArray | None) -> pa.Array:
    """Make an Arrow column that is NULL where nothing is held."""
    return pa.array(values) if held is None else pa.array(values, mask=~held)


def typed(values: Array, held: BoolArray | None, type_: pa.DataType) -> pa.Array:
    """Make an Arrow column of a type of what :attr:`RowColumn.numbers` reads of such a column."""
    if held is not None:
        values = np.where(held, values, np.zeros((), values.dtype))
    if pa.types.is_timestamp(type_):
        return masked(values, held).view(type_)
    if pa.types.is_date32(type_):
        return masked(values.astype(np.int32), held).view(type_)
    return masked(values, held).cast(type_)


def centred(column: RowColumn, runs: RowRuns, *, exact: bool = False) -> tuple[Int64Array, Array, Array]:
    """Return how many values each run holds, their mean, and the distances from it of the rows in order, 0 of NULL.

    ``exact``: of equal values the mean is the value itself, which a sum divided by a count need not be.
    """
    values, valid = column.numbers[runs.order], None if column.valid is None else column.valid[runs.order]
    count = runs.count(column.valid)
    with np.errstate(all="ignore"):
        mean = np.add.reduceat(values, runs.starts) / count
        if exact:
            least = runs.best(_with(column, np.inf), np.fmin)
            mean = np.where(least == runs.best(_with(column, -np.inf), np.fmax), least, mean)
        distances = values - mean[runs.owner]
    return count, mean, distances if valid is None else np.where(valid, distances, 0.0)


def _with(column: RowColumn, instead: float) -> Array:
    """Return a column's numbers, with something in place of NULL."""
    return column.numbers if column.valid is None else np.where(column.valid, column.numbers, instead)


def lists_of(values: pa.Array, lengths: Int64Array) -> pa.Array:
    """Make lists of flat values, given how long each is."""
    bounds = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=bounds[1:])
    return pa.ListArray.from_arrays(pa.array(bounds), values)


def structs_of(fields: dict[str, pa.Array]) -> pa.Array:
    """Make structs of columns."""
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def picked_rows(runs: RowRuns, wanted: BoolArray, rank: Int64Array, *, last: bool) -> Int64Array:
    """Pick of each run the first or last row by rank, among those wanted; any row where none is.

    Of rows of one rank, the first one is picked that stands first, the last one that stands last.
    """
    count = len(runs.order)
    worst = -1 if last else int(rank.max(initial=0)) + 1
    keys = np.where(wanted, rank, worst)[runs.order] * count + np.arange(count)
    best = (np.maximum if last else np.minimum).reduceat(keys, runs.starts)
    return np.asarray(runs.order[best % count], np.int64)


def one_rank(ranks: Sequence[Int64Array]) -> Int64Array:
    """Rank rows by several ranks, the first one above the others, by numbers below their count."""
    found = ranks[0]
    for more in ranks[1:]:
        found = np.unique(found * (int(more.max(initial=0)) + 1) + more, return_inverse=True)[1].astype(np.int64)
    return found
