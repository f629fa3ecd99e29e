"""Merges states over any range of slices with a tree whose nodes are made when they are needed.

States are dear to merge and to keep, so nodes above the slices are made only when an answer asks for them: a tree of
``FAN`` children a node, whose nodes are kept until a slice below them changes. Stretches that end together are merged
in one sweep.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.evaluate.components.component import Array, Planes
from penstock.evaluate.components.frequencies import objects
from penstock.evaluate.components.states import State, bytes_of
from penstock.evaluate.windows.sweeps import sweeps
from penstock.model.arrays import Int64Array

FAN: Final = 8


class LazyStateTree:
    """One state component of a dense lane, [slice, column], with the merged states of whole stretches as asked for."""

    def __init__(self, component: State) -> None:
        """Begin without slices or columns."""
        self.component = component
        self._leaves: Array = np.full((0, 0), None, object)
        self._nodes: dict[tuple[int, int], Array] = {}  # level from 1 on, position: states by column

    def place(self, rows: Int64Array, slices: int, columns: int) -> None:
        """Make room for slices and columns; the slice stored as i becomes ``rows[i]``."""
        stored, width = self._leaves.shape
        if len(rows) and rows[-1] != stored - 1:
            self._nodes = {}
        if (slices, columns) == (stored, width):
            return
        leaves = np.full((slices, columns), None, object)
        leaves[rows if len(rows) else np.arange(stored), :width] = self._leaves
        self._leaves = leaves

    def add(self, rows: Int64Array, columns: Int64Array, planes: Planes) -> None:
        """Combine states into distinct (slice, column) pairs, and forget the nodes above them."""
        (self._leaves[rows, columns],) = self.component.combine((self._leaves[rows, columns],), planes)
        for row in np.unique(rows).tolist():
            level, at = 1, row // FAN
            while at or level == 1:
                self._nodes.pop((level, at), None)
                level, at = level + 1, at // FAN
            self._forget_roots(level)

    def _forget_roots(self, level: int) -> None:
        """Forget the first node of every level from one on: it spans all that is below it."""
        while self._nodes.pop((level, 0), None) is not None:
            level += 1

    def merge(self, lo: Int64Array, hi: Int64Array) -> tuple[Planes, int]:
        """Return the states of slices lo … hi - 1, [evaluation, column], and the nodes merged.

        Of stretches that end together, a longer one is made from the next shorter one, where that is less to merge.
        """
        width = self._leaves.shape[1]
        out, nodes = np.full((len(lo), width), None, object), 0
        for sweep in sweeps(lo, hi):
            shorter: list[Array] = []
            for step in sweep.steps:
                whole, added = cover(step.lo, sweep.end), cover(step.lo, step.hi)
                if len(whole) <= len(added):
                    added, shorter = whole, []
                states = self._merged([*(self._node(level, at) for level, at in added), *shorter], width)
                nodes, shorter = nodes + len(added), [states]
                out[list(step.asked_by)] = states
        return (out,), nodes

    def keep(self, first: int, columns: Int64Array) -> None:
        """Forget the slices before ``first`` and all but the given columns."""
        self._leaves = self._leaves[first:, columns].copy()
        self._nodes = {}

    def cells(self) -> Planes:
        """Return what each slice holds, [slice, column]."""
        return (self._leaves,)

    @property
    def nbytes(self) -> int:
        """Return about how much memory the states take, those of nodes included."""
        return bytes_of(self._leaves) + sum(bytes_of(node) for node in list(self._nodes.values()))

    def _node(self, level: int, at: int) -> Array:
        """Return the states of a node by column, merging those of its children where that was not done yet."""
        if level == 0:
            leaves: Array = self._leaves[at]
            return leaves
        known = self._nodes.get((level, at))
        if known is None:
            parts = [self._node(level - 1, at * FAN + child) for child in range(FAN)]
            known = self._nodes[level, at] = self._merged(parts, self._leaves.shape[1])
        return known

    def _merged(self, parts: list[Array], width: int) -> Array:
        """Merge several states of each column; a node made when there were fewer columns has none of the others."""
        groups: list[list[Any]] = [[] for _ in range(width)]
        for part in parts:
            for column, state in enumerate(part.tolist()):
                if state is not None:
                    groups[column].append(state)
        return objects(self.component.merge_each(groups))


def cover(lo: int, hi: int) -> list[tuple[int, int]]:
    """List the fewest nodes that make up slices lo … hi - 1, in order."""
    left: list[tuple[int, int]] = []
    right: list[tuple[int, int]] = []
    level = 0
    while lo < hi:
        while lo % FAN and lo < hi:
            left.append((level, lo))
            lo += 1
        while hi % FAN and lo < hi:
            hi -= 1
            right.append((level, hi))
        level, lo, hi = level + 1, lo // FAN, hi // FAN
    return [*left, *reversed(right)]
