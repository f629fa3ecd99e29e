"""Merges values that cannot be subtracted over any range of slices, in a logarithmic number of steps."""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.evaluate.components.numbers import Component, Planes
from penstock.evaluate.windows.growth import UNBOUNDED, Growth
from penstock.evaluate.windows.partials import Order
from penstock.model.arrays import Int64Array

FEW_CELLS: Final = 1 << 16  # that are sooner computed one after the other than picked out
SMALL: Final = 1 << 13  # values of a level that is not worth making anew
ROOM: Final = 4  # times the slices in use that a level may have room for and is used again
SHORT: Final = 16  # slices of a window that are sooner gone through than found in the tree, for few columns


class SegmentTree:
    """A segment tree over slices, one array per level and plane: node i of a level combines 2i and 2i + 1 below it.

    Rows beyond the last slice hold identities, so no node needs to know how many there are. The last row of an odd
    level has no node above it: no stretch of slices asks for one.
    All evaluations climb together: a level costs a few array operations, whatever their number. Nodes above slices that
    have changed are computed when they are asked for, a stretch of them at once, and so are whole levels that are new.
    """

    def __init__(self, component: Component, growth: Growth = UNBOUNDED) -> None:
        """Begin without slices or columns; ``growth`` says what may be taken besides what is needed."""
        self.component, self._growth = component, growth
        self._slices, self._columns = 0, 0
        self._levels: list[Planes] = [component.identities((1, 0))]
        self._stale = (0, 0)  # the slices, from one before another, above which nodes are not computed yet
        self._is_climbed = False  # levels above the leaves were asked for

    @property
    def nbytes(self) -> int:
        """Return how much memory the levels take."""
        return self.bytes_with(0, 0)

    def bytes_with(self, slices: int, columns: int) -> int:
        """Return how much memory so many slices and columns will take at least, with the levels above them."""
        leaves = self._levels[0]
        rows, width = map(int, leaves[0].shape)
        levels = 2 if self._is_climbed else 1  # those above the leaves are made anew when they are asked for
        cell: int = sum(plane.itemsize for plane in leaves)
        return levels * max(rows, slices) * max(width, columns) * cell

    def place(self, rows: Int64Array, slices: int, columns: int) -> None:
        """Make room for slices and columns; the slice stored as i becomes ``rows[i]``, those between hold nothing."""
        self._grow(slices, columns)
        if len(rows) and rows[-1] != self._slices - 1:
            for plane, empty in zip(self._levels[0], self.component.identities((slices, columns)), strict=True):
                empty[rows] = plane[: self._slices, :columns]
                plane[:slices, :columns] = empty
            self._outdate(0, slices)
        self._slices, self._columns = slices, columns

    def add(self, rows: Int64Array, columns: Int64Array, planes: Planes) -> None:
        """Combine values into (slice, column) pairs."""
        leaves = self._levels[0]
        if self.component.scatters:
            flat = tuple(leaf.reshape(-1) for leaf in leaves)
            self.component.scatter(flat, rows * leaves[0].shape[1] + columns, planes)
        else:  # of distinct pairs
            combined = self.component.combine(tuple(leaf[rows, columns] for leaf in leaves), planes)
            for leaf, plane in zip(leaves, combined, strict=True):
                leaf[rows, columns] = plane
        first, end = int(rows.min()), int(rows.max()) + 1
        if (end - first) * self._columns <= FEW_CELLS:
            self._outdate(first, end)
        else:
            self._repair(np.flatnonzero(np.bincount(rows)))

    def merge(self, lo: Int64Array, hi: Int64Array) -> tuple[Planes, int]:
        """Return the values over slices lo … hi - 1 for every column, [evaluation, column], and the nodes combined."""
        if self.component.merges_stretches and self._is_short(lo, hi):
            return self._gone_through(lo, hi)
        self._refresh()
        out, nodes = self.component.identities((len(lo), self._columns)), 0
        for level in self._levels:
            open_ = lo < hi
            if not open_.any():
                break
            left, right = np.flatnonzero(open_ & (lo & 1 == 1)), np.flatnonzero(open_ & (hi & 1 == 1))
            self._take(out, left, level, lo[left])
            self._take(out, right, level, hi[right] - 1)
            nodes += len(left) + len(right)
            lo, hi = (lo + 1) >> 1, hi >> 1
        return out, nodes

    def _is_short(self, lo: Int64Array, hi: Int64Array) -> bool:
        """Tell whether windows hold few slices, or few cells; behind their slices a row must follow."""
        lengths, rows = hi - lo, len(self._levels[0][0])
        if not len(lo) or int(hi.max()) >= rows:
            return False
        few = int(lengths.sum()) * self._columns <= FEW_CELLS
        return few or (self.component.idempotent and int(lengths.max()) <= SHORT)

    def _gone_through(self, lo: Int64Array, hi: Int64Array) -> tuple[Planes, int]:
        """Combine the slices of each window one after the other, in a few steps of numpy for all windows."""
        leaves = tuple(plane[: int(hi.max()) + 1, : self._columns] for plane in self._levels[0])
        held = np.flatnonzero(lo < hi)
        if len(held) == len(lo):
            return self.component.stretches(leaves, lo, hi), int((hi - lo).sum())
        out = self.component.identities((len(lo), self._columns))
        if len(held):
            for plane, values in zip(out, self.component.stretches(leaves, lo[held], hi[held]), strict=True):
                plane[held] = values
        return out, int((hi - lo)[held].sum())

    def keep(self, first: int, columns: Int64Array) -> None:
        """Forget the slices before ``first`` and all but the given columns.

        Memory is used again if most of it was: the next batch brings as many slices as go.
        """
        kept = tuple(plane[first : self._slices, columns] for plane in self._levels[0])
        slices, rows, width = self._slices - first, *self._levels[0][0].shape
        growth, needed = self._growth, slices if self._growth.is_tight else self._slices
        fits = growth.keeps(rows, needed, ROOM) and growth.kept_columns(width, self._columns) == width
        if not (fits or growth.is_small(rows * width, SMALL)):
            self._levels = [self.component.identities((1, 0))]
            self._grow(slices, len(columns))
        else:
            for height, level in enumerate(self._levels):
                used = (self._slices >> height) + 1
                for plane, empty in zip(level, self.component.identities(1), strict=True):
                    plane[:used, : self._columns] = empty
        for plane, values in zip(self._levels[0], kept, strict=True):
            plane[:slices, : len(columns)] = values
        self._slices, self._columns = slices, len(columns)
        self._stale = (0, slices)

    def cells(self) -> Planes:
        """Return what each slice holds, [slice, column]."""
        return tuple(plane[: self._slices, : self._columns] for plane in self._levels[0])

    def _take(self, out: Planes, rows: Order, level: Planes, nodes: Int64Array) -> None:
        """Combine one node of a level into each of some rows."""
        if not len(rows):
            return
        width = self._columns
        have = tuple(plane[rows] for plane in out)
        combined = self.component.combine(have, tuple(plane[nodes, :width] for plane in level))
        for plane, values in zip(out, combined, strict=True):
            plane[rows] = values

    def _outdate(self, first: int, end: int) -> None:
        """Note that slices have changed."""
        known = self._stale
        self._stale = (first, end) if known[0] == known[1] else (min(known[0], first), max(known[1], end))

    def _refresh(self) -> None:
        """Compute the nodes above the slices that have changed, level by level."""
        self._raise_levels()
        (first, end), width = self._stale, self._columns
        if first == end:
            return
        for below, above in zip(self._levels, self._levels[1:], strict=False):
            first, end = first >> 1, min((end + 1) >> 1, len(above[0]))  # of an odd level, the last node has no parent
            if first >= end:
                break
            left = tuple(plane[2 * first : 2 * end : 2, :width] for plane in below)
            right = tuple(plane[2 * first + 1 : 2 * end : 2, :width] for plane in below)
            for plane, values in zip(above, self.component.combine(left, right), strict=True):
                plane[first:end, :width] = values
        self._stale = (0, 0)

    def _repair(self, rows: Order) -> None:
        """Compute the nodes above some slices that are far apart, level by level."""
        width = self._columns
        for below, above in zip(self._levels, self._levels[1:], strict=False):
            rows = np.unique(rows >> 1)
            rows = rows[rows < len(above[0])]
            left = tuple(plane[2 * rows, :width] for plane in below)
            right = tuple(plane[2 * rows + 1, :width] for plane in below)
            for plane, values in zip(above, self.component.combine(left, right), strict=True):
                plane[rows, :width] = values

    def _grow(self, slices: int, columns: int) -> None:
        """Make room for slices and columns."""
        rows, width = self._levels[0][0].shape
        if slices <= rows and columns <= width:
            return
        old = self._levels[0]
        each = 2 * sum(plane.itemsize for plane in old)  # the levels above take as much as the leaves
        width = self._growth.columns(width, columns, each * max(rows, slices))
        rows = rows if slices <= rows else self._growth.rows(slices, _doubled(rows, slices), each * width)
        self._levels = [self.component.identities((rows, width))]
        for plane, values in zip(self._levels[0], old, strict=True):
            plane[: values.shape[0], : values.shape[1]] = values

    def _raise_levels(self) -> None:
        """Make the levels above the slices, if they are not there: short windows may never need them."""
        rows, width = self._levels[0][0].shape
        self._is_climbed = True
        if len(self._levels) < rows.bit_length():
            above = range(1, rows.bit_length())
            self._levels = [self._levels[0], *(self.component.identities((rows >> i, width)) for i in above)]
            self._outdate(0, self._slices)


def _doubled(have: int, need: int) -> int:
    """Double a number until it is enough."""
    while have < need:
        have *= 2
    return have
