"""Merges states over any range of slices with a tree whose nodes are made when they are needed.

States are dear to merge and to keep, so nodes above the slices are made only when an answer asks for them: a tree of
``FAN`` children a node, whose nodes are kept until a slice below them changes. Stretches that overlap are merged in one
sweep.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.evaluate.components.component import Array, Planes
from penstock.evaluate.components.frequencies import objects
from penstock.evaluate.components.states import State, bytes_of
from penstock.evaluate.windows.sweeps import Sweep, sweeps
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

        Stretches that overlap are merged in one sweep, where that is less to merge.
        """
        width = self._leaves.shape[1]
        out, nodes = np.full((len(lo), width), None, object), 0
        for sweep in sweeps(lo, hi):
            alone = [cover(one.lo, one.hi) for one in sweep.stretches]
            steps = [len(cover(*step)) for step in (*sweep.backward(), *sweep.forward())]
            swept = sum(steps) + sweep.crossing < sum(map(len, alone))
            nodes += sum(steps) + sweep.crossing if swept else sum(map(len, alone))
            states = self._swept(sweep) if swept else [self._merged(self._nodes_of(each), width) for each in alone]
            for one, found in zip(sweep.stretches, states, strict=True):
                out[list(one.asked_by)] = found
        return (out,), nodes

    def _swept(self, sweep: Sweep) -> list[Array]:
        """Merge the stretches of a sweep: what lies before its edge, what lies behind, and both."""
        width = self._leaves.shape[1]
        before, behind = dict[int, list[Array]](), dict[int, list[Array]]()
        for start, end in sweep.backward():
            before[start] = [self._merged([*self._nodes_of(cover(start, end)), *before.get(end, [])], width)]
        for start, end in sweep.forward():
            behind[end] = [self._merged([*behind.get(start, []), *self._nodes_of(cover(start, end))], width)]
        both = [[*before.get(one.lo, []), *behind.get(one.hi, [])] for one in sweep.stretches]
        return [parts[0] if len(parts) == 1 else self._merged(parts, width) for parts in both]

    def _nodes_of(self, listed: list[tuple[int, int]]) -> list[Array]:
        """Return the states of some nodes."""
        return [self._node(level, at) for level, at in listed]

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

    def bytes_with(self, slices: int, columns: int) -> int:
        """Return how much memory is taken, whatever the slices and columns: states that are not there take none."""
        return self.nbytes

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
