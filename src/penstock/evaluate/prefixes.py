"""Counts and exact sums per slice and group come in; the sums of any stretch of slices come out, by one subtraction.

Prefixes are int64 and wrap around: arithmetic modulo 2^64 keeps differences exact as long as the sum of one limb over
one window is within int64, however long the stream runs.
"""

from __future__ import annotations

import numpy as np

from penstock.evaluate.components import Component, Int64Array, Planes


class Prefixes:
    """Running sums of one invertible component: row i of each plane holds, per column, the sum of slices before i."""

    def __init__(self, component: Component, planes: int) -> None:
        """Begin without slices or columns."""
        self.component = component
        self._slices, self._columns = 0, 0
        self._sums = [np.zeros((1, 0), np.int64) for _ in range(planes)]

    def place(self, rows: Int64Array, slices: int, columns: int) -> None:
        """Make room for slices and columns; the slice stored as i becomes ``rows[i]``, those between hold nothing."""
        stored, width = self._slices, columns
        for number, sums in enumerate(self._sums):
            sums = self._sums[number] = _grown(sums, slices + 1, columns)
            if len(rows) == 0 or rows[-1] == stored - 1:
                sums[stored + 1 : slices + 1, :width] = sums[stored, :width]
            else:
                before = np.searchsorted(rows, np.arange(slices), side="right")
                sums[1 : slices + 1, :width] = sums[before, :width]
        self._slices, self._columns = slices, columns

    def add(self, rows: Int64Array, columns: Int64Array, planes: Planes) -> None:
        """Add values at (slice, column) pairs; only the prefixes from the first of them on are touched."""
        first = int(rows.min())
        places = (rows - first) * self._columns + columns
        for sums, plane in zip(self._sums, planes, strict=True):
            change = np.zeros((self._slices - first, self._columns), np.int64)
            np.add.at(change.reshape(-1), places, plane)
            sums[first + 1 : self._slices + 1, : self._columns] += np.cumsum(change, axis=0, out=change)

    def merge(self, lo: Int64Array, hi: Int64Array) -> tuple[Planes, int]:
        """Return the sums over slices lo … hi - 1, [evaluation, column], and the operations per column."""
        width = self._columns
        return tuple(sums[hi, :width] - sums[lo, :width] for sums in self._sums), len(lo)

    def keep(self, first: int, columns: Int64Array) -> None:
        """Forget the slices before ``first`` and all but the given columns; sums begin at zero again."""
        end = self._slices + 1
        self._sums = [sums[first:end, columns] - sums[first, columns] for sums in self._sums]
        self._slices, self._columns = self._slices - first, len(columns)

    def cells(self) -> Planes:
        """Return what each slice holds, [slice, column]."""
        return tuple(np.diff(sums[: self._slices + 1, : self._columns], axis=0) for sums in self._sums)


def _grown(sums: Int64Array, rows: int, columns: int) -> Int64Array:
    """Return an array with at least so many rows and columns, doubling what is too small."""
    have_rows, have_columns = sums.shape
    if rows <= have_rows and columns <= have_columns:
        return sums
    shape = (_capacity(have_rows, rows), _capacity(have_columns, columns))
    grown = np.zeros(shape, np.int64)
    grown[:have_rows, :have_columns] = sums
    return grown


def _capacity(have: int, need: int) -> int:
    """Return a size that holds what is needed, at least double the old one if that is too small."""
    return have if need <= have else max(need, 2 * have)
