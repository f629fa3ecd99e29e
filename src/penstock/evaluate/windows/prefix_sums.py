"""Sums counts and exact numbers over any range of slices by one subtraction of running sums.

Prefixes are int64 and wrap around: arithmetic modulo 2^64 keeps differences exact as long as the sum of one limb over
one window is within int64, however long the stream runs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.evaluate.components.numbers import Component, Planes
from penstock.evaluate.windows.growth import UNBOUNDED, Growth
from penstock.evaluate.windows.held_cells import HeldCells
from penstock.model.arrays import Int64Array

SMALL: Final = 1 << 13  # numbers of an array that is not worth making anew
ROOM: Final = 4  # times the rows in use that an array may have and is used again
WIDE: Final = 256  # columns from which adding row to row is faster than summing up column by column


class PrefixSums:
    """Running sums of one invertible component: row i of each plane holds, per column, the sum of slices before i.

    Rows of slices that are new hold just what was added to the slice before them, until sums are asked for: they are
    summed up in place, so that no memory is needed but what they take anyway.
    """

    def __init__(self, component: Component, planes: int, growth: Growth = UNBOUNDED) -> None:
        """Begin without slices or columns; ``growth`` says what may be taken besides what is needed."""
        self.component, self._growth = component, growth
        self._slices, self._columns = 0, 0
        self._summed = 0  # slices before which rows are sums
        self._sums = [np.zeros((1, 0), np.int64) for _ in range(planes)]

    @property
    def room(self) -> int:
        """Return for how many columns there is memory, used or not."""
        return min(sums.shape[1] for sums in self._sums)

    @property
    def nbytes(self) -> int:
        """Return how much memory the sums take."""
        return sum(int(sums.nbytes) for sums in self._sums)

    def bytes_with(self, slices: int, columns: int) -> int:
        """Return how much memory so many slices and columns will take at least."""
        return sum(8 * max(len(sums), slices + 1) * max(sums.shape[1], columns) for sums in self._sums)

    def place(self, rows: Int64Array, slices: int, columns: int) -> None:
        """Make room for slices and columns; the slice stored as i becomes ``rows[i]``, those between hold nothing."""
        between = len(rows) > 0 and rows[-1] != self._slices - 1
        if between:
            self._sum_up()
        self._sums = [self._grown(sums, slices + 1, columns) for sums in self._sums]
        if between:
            before = np.searchsorted(rows, np.arange(slices), side="right")
            for sums in self._sums:
                sums[1 : slices + 1, :columns] = sums[before, :columns]
            self._summed = slices
        self._slices, self._columns = slices, columns

    def add(self, rows: Int64Array, columns: Int64Array, planes: Planes) -> None:
        """Add values at (slice, column) pairs; only the prefixes from the first of them on are touched."""
        if not len(rows):
            return
        self._take_apart(int(rows.min()))
        for sums, plane in zip(self._sums, planes, strict=True):
            np.add.at(sums.reshape(-1), (rows + 1) * sums.shape[1] + columns, plane)

    def _take_apart(self, first: int) -> None:
        """Let the slices from one on hold just what was added to them: most often, it is the last one that grows on."""
        if first >= self._summed:
            return
        for sums in self._sums:
            known = sums[first : self._summed + 1, : self._columns]
            np.subtract(known[1:], known[:-1], out=known[1:])
        self._summed = first

    def _sum_up(self) -> None:
        """Let every row be a sum."""
        if self._summed == self._slices:
            return
        for sums in self._sums:
            new = sums[self._summed : self._slices + 1, : self._columns]
            if self._columns < WIDE:
                np.cumsum(new, axis=0, out=new)
                continue
            for row in range(1, len(new)):
                np.add(new[row], new[row - 1], out=new[row])
        self._summed = self._slices

    def merge(self, lo: Int64Array, hi: Int64Array) -> tuple[Planes, int]:
        """Return the sums over slices lo … hi - 1, [evaluation, column], and the operations per column."""
        self._sum_up()
        width = self._columns
        return tuple(sums[hi, :width] - sums[lo, :width] for sums in self._sums), len(lo)

    def read(self, cells: HeldCells) -> tuple[Planes, int]:
        """Return the sums of some cells alone, and the operations per column."""
        self._sum_up()
        found = []
        for sums in self._sums:
            upper, lower = cells.places(sums.shape[1])
            flat = sums.reshape(-1)
            found.append(flat.take(upper) - flat.take(lower))
        return tuple(found), len(cells.lo)

    def keep(self, first: int, columns: Int64Array) -> None:
        """Forget the slices before ``first`` and all but the given columns; sums begin at zero again."""
        self._sum_up()
        end = self._slices + 1
        used = end, self._columns
        self._sums = [self._moved(sums[first:end, columns] - sums[first, columns], sums, used) for sums in self._sums]
        self._slices, self._columns = self._slices - first, len(columns)
        self._summed = self._slices

    def cells(self) -> Planes:
        """Return what each slice holds, [slice, column]."""
        self._sum_up()
        return tuple(np.diff(sums[: self._slices + 1, : self._columns], axis=0) for sums in self._sums)

    def _grown(self, sums: Int64Array, rows: int, columns: int) -> Int64Array:
        """Return an array with at least so many rows and columns; rows without slices take no memory at first."""
        have_rows, have_columns = sums.shape
        if rows <= have_rows and columns <= have_columns:
            return sums
        width = self._growth.columns(have_columns, columns, 8 * rows)
        high = have_rows if rows <= have_rows else self._growth.rows(rows, max(rows, 2 * have_rows), 8 * width)
        grown = np.zeros((high, width), np.int64)
        grown[:have_rows, :have_columns] = sums
        return grown

    def _moved(self, kept: Int64Array, sums: Int64Array, used: tuple[int, int]) -> Int64Array:
        """Put sums into an array with room for as many slices again, and for about the columns that there were.

        An array of which most was ``used``, rows and columns, is used again, as the next batch brings as many slices
        and columns as went; so is a small one. What was not used holds zeros.
        """
        (rows, columns), growth = kept.shape, self._growth
        needed = rows if growth.is_tight else used[0]
        fits = growth.keeps(len(sums), needed, ROOM) and growth.kept_columns(sums.shape[1], used[1]) == sums.shape[1]
        if fits or growth.is_small(sums.size, SMALL):
            sums[:rows, :columns] = kept
            sums[:rows, columns : used[1]] = 0
            sums[rows : used[0], : used[1]] = 0
            return sums
        width = growth.kept_columns(sums.shape[1], columns)
        moved = np.zeros((growth.rows(rows, 2 * rows, 8 * width), width), np.int64)
        moved[:rows, :columns] = kept
        return moved
