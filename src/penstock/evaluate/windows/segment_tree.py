"""Merges values that cannot be subtracted over any range of slices, in a logarithmic number of steps."""

from __future__ import annotations

import numpy as np

from penstock.evaluate.components.numbers import Component, Planes, widened
from penstock.evaluate.windows.partials import Order
from penstock.model.arrays import Int64Array


class SegmentTree:
    """A segment tree over slices, one array per level and plane: node i of a level combines 2i and 2i + 1 below it.

    Rows beyond the last slice hold identities, so levels are always full and no node needs to know how many there are.
    All evaluations climb together: a level costs a few array operations, whatever their number.
    """

    def __init__(self, component: Component) -> None:
        """Begin without slices or columns."""
        self.component = component
        self._slices, self._columns = 0, 0
        self._levels: list[Planes] = [component.identities((1, 0))]

    def place(self, rows: Int64Array, slices: int, columns: int) -> None:
        """Make room for slices and columns; the slice stored as i becomes ``rows[i]``, those between hold nothing."""
        self._grow(slices, columns)
        moved = bool(len(rows)) and rows[-1] != self._slices - 1
        if moved:
            for plane, empty in zip(self._levels[0], self.component.identities((slices, columns)), strict=True):
                empty[rows] = plane[: self._slices, :columns]
                plane[:slices, :columns] = empty
        self._slices, self._columns = slices, columns
        if moved:
            self._repair(np.arange(slices))

    def add(self, rows: Int64Array, columns: Int64Array, planes: Planes) -> None:
        """Combine values into (slice, column) pairs, and recompute the nodes above them."""
        leaves = self._levels[0]
        if self.component.scatters:
            flat = tuple(leaf.reshape(-1) for leaf in leaves)
            self.component.scatter(flat, rows * leaves[0].shape[1] + columns, planes)
        else:  # of distinct pairs
            combined = self.component.combine(tuple(leaf[rows, columns] for leaf in leaves), planes)
            for leaf, plane in zip(leaves, combined, strict=True):
                leaf[rows, columns] = plane
        self._repair(np.flatnonzero(np.bincount(rows)))

    def merge(self, lo: Int64Array, hi: Int64Array) -> tuple[Planes, int]:
        """Return the values over slices lo … hi - 1 for every column, [evaluation, column], and the nodes combined."""
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

    def keep(self, first: int, columns: Int64Array) -> None:
        """Forget the slices before ``first`` and all but the given columns."""
        kept = tuple(plane[first : self._slices, columns] for plane in self._levels[0])
        slices = self._slices - first
        self._slices, self._columns = 0, 0
        self._levels = [self.component.identities((1, 0))]
        self.place(np.empty(0, np.int64), slices, len(columns))
        for plane, values in zip(self._levels[0], kept, strict=True):
            plane[:slices, : len(columns)] = values
        self._repair(np.arange(slices))

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

    def _repair(self, rows: Order) -> None:
        """Recompute the ancestors of some slices, level by level."""
        width = self._columns
        for below, above in zip(self._levels, self._levels[1:], strict=False):
            rows = np.unique(rows >> 1)
            left = tuple(plane[2 * rows, :width] for plane in below)
            right = tuple(plane[2 * rows + 1, :width] for plane in below)
            for plane, values in zip(above, self.component.combine(left, right), strict=True):
                plane[rows, :width] = values

    def _grow(self, slices: int, columns: int) -> None:
        """Double the levels' rows until slices fit, and make room for columns."""
        rows, width = self._levels[0][0].shape
        if slices <= rows and columns <= width:
            return
        while rows < slices:
            rows *= 2
        old, width = self._levels, widened(width, columns)
        self._levels = [self.component.identities((rows >> i, width)) for i in range(rows.bit_length())]
        for new, level in zip(self._levels, old, strict=False):
            for plane, values in zip(new, level, strict=True):
                plane[: values.shape[0], : values.shape[1]] = values
        self._repair(np.zeros(1, np.int64))  # the old root is now one node among others
