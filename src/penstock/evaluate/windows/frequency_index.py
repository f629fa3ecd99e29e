"""Merges frequency tables over any range of slices, for all groups at once.

What is stored are rows of (column, value, slice, count) in order of column and value, whatever their slices: the tables
of a stretch are then the rows whose slice is within it, already in order. So a window costs one pass over what is
stored, in array operations, and no object for each group. Where most slices hold most values, running sums take the
place of the rows, and a window costs one subtraction for each column and value.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.evaluate.components.component import Component, Planes
from penstock.evaluate.components.frequencies import runs
from penstock.evaluate.components.frequency_tables import tables_of
from penstock.evaluate.components.reading import ordered_type
from penstock.evaluate.windows.frequency_ranges import (
    ColumnLines,
    CountedValues,
    FrequencyRanges,
    SlicedLines,
    SummedLines,
)
from penstock.evaluate.windows.value_pool import ValuePool
from penstock.model.arrays import Int64Array

SPARSE: Final = 4  # up to so many cells of slices × values for each row stored, running sums are kept


class FrequencyIndex:
    """One component of frequency tables of a dense lane, [slice, column]."""

    def __init__(self, component: Component, pool: ValuePool | None = None) -> None:
        """Begin without slices or columns; ``pool`` numbers values that are no numbers."""
        self.component, self._pool = component, pool
        self._slices, self._width = 0, 0
        self._rows = CountedValues.none(ordered_type(component.type) if pool is None else np.dtype(np.int64))
        self._arrived: list[CountedValues] = []
        self._lines: ColumnLines | None = None  # of the rows, once they are asked for

    def place(self, rows: Int64Array, slices: int, columns: int) -> None:
        """Make room for slices and columns; the slice stored as i becomes ``rows[i]``."""
        if len(rows) and rows[-1] != self._slices - 1:
            self._settle()
            self._rows.slices = rows[self._rows.slices]
        self._lines, self._slices, self._width = None, slices, columns

    def add(self, rows: Int64Array, columns: Int64Array, planes: Planes) -> None:
        """Take tables of (slice, column) pairs."""
        tables = tables_of(planes[0]).flat
        lengths = tables.lengths
        values = tables.values if self._pool is None else self._pool.encode(tables.values)
        flat = np.repeat(columns, lengths), values, np.repeat(rows, lengths), tables.weights
        self._arrived.append(CountedValues(*flat))

    def merge(self, lo: Int64Array, hi: Int64Array) -> tuple[Planes, int]:
        """Return the tables of slices lo … hi - 1, to be read at [evaluation, column], and the stretches read."""
        self._settle()
        if self._lines is None:
            rows = self._rows
            pairs = runs(rows.values, rows.columns)
            dense = self._slices * len(pairs) <= SPARSE * len(rows.values)
            self._lines = (SummedLines if dense else SlicedLines)(rows, pairs, self._slices, self._width, self._pool)
        return (FrequencyRanges(self._lines, lo, hi).array,), len(lo)

    def keep(self, first: int, columns: Int64Array) -> None:
        """Forget the slices before ``first`` and all but the given columns, which ascend: what is left is in order.

        New numbers of values are in the order of the old ones.
        """
        self._settle()
        moved = np.full(self._width, -1, np.int64)
        moved[columns] = np.arange(len(columns))
        rows = self._rows
        kept = rows.take(np.flatnonzero((rows.slices >= first) & (moved[rows.columns] >= 0)))
        values = kept.values
        if self._pool is not None and (numbers := self._pool.forget_others(values)) is not None:
            values = numbers[values]
        self._rows = CountedValues(moved[kept.columns], values, kept.slices - first, kept.weights)
        self._lines, self._slices, self._width = None, self._slices - first, len(columns)

    def cells(self) -> Planes:
        """Return what each slice holds, to be read at [slice, column]."""
        return self.merge(np.arange(self._slices), np.arange(1, self._slices + 1))[0]

    @property
    def nbytes(self) -> int:
        """Return how much memory the tables take."""
        pooled = 0 if self._pool is None else self._pool.nbytes
        return pooled + sum(rows.nbytes for rows in (self._rows, *self._arrived))

    def bytes_with(self, slices: int, columns: int) -> int:
        """Return how much memory is taken, whatever the slices and columns: what is not there takes none."""
        return self.nbytes

    def _settle(self) -> None:
        """Bring arrivals into order, and put them between what is in order already."""
        if self._arrived:
            self._rows = self._rows.with_sorted(CountedValues.joined(self._arrived).ordered())
            self._arrived, self._lines = [], None
