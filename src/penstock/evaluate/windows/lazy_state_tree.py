"""Merges states over any range of slices with a tree whose nodes are made when they are needed.

States are dear to merge and to keep, so nodes above the slices are made only when an answer asks for them: a tree of
``FAN`` children a node, whose nodes are kept until a slice below them changes. Stretches that overlap are merged in one
sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from penstock.evaluate.components.component import Array, Planes
from penstock.evaluate.components.states import State, bytes_of
from penstock.evaluate.windows.held_states import NO_STATES, HeldStates
from penstock.evaluate.windows.partials import sort_pairs
from penstock.evaluate.windows.sweeps import Sweep, sweeps
from penstock.model.arrays import Int64Array

FAN: Final = 8


class LazyStateTree:
    """One state component of a dense lane, [slice, column], with the merged states of whole stretches as asked for.

    Most slices hold a state in few of many columns, so only these are stored and looked at.
    """

    def __init__(self, component: State) -> None:
        """Begin without slices or columns."""
        self.component = component
        self._leaves: list[HeldStates] = []  # by slice
        self._width = 0
        self._nodes: dict[tuple[int, int], HeldStates] = {}  # level from 1 on, position

    def place(self, rows: Int64Array, slices: int, columns: int) -> None:
        """Make room for slices and columns; the slice stored as i becomes ``rows[i]``."""
        stored, self._width = len(self._leaves), columns
        if len(rows) and rows[-1] != stored - 1:
            self._nodes = {}
        if slices == stored:
            return
        before, self._leaves = self._leaves, [NO_STATES] * slices
        for row, leaf in zip(rows.tolist() if len(rows) else range(stored), before, strict=True):
            self._leaves[row] = leaf

    def add(self, rows: Int64Array, columns: Int64Array, planes: Planes) -> None:
        """Combine states into distinct (slice, column) pairs, and forget the nodes above them."""
        order = sort_pairs(rows, columns)
        if order is not None:
            rows, columns, planes = rows[order], columns[order], (planes[0][order],)
        starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
        for first, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
            row, came = int(rows[first]), HeldStates.of(columns[first:end], planes[0][first:end])
            self._leaves[row] = self._merged([self._leaves[row], came])
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
        out, nodes = np.full((len(lo), self._width), None, object), 0
        for sweep in sweeps(lo, hi):
            alone = [cover(one.lo, one.hi) for one in sweep.stretches]
            steps = [len(cover(*step)) for step in (*sweep.backward(), *sweep.forward())]
            swept = sum(steps) + sweep.crossing < sum(map(len, alone))
            nodes += sum(steps) + sweep.crossing if swept else sum(map(len, alone))
            states = self._swept(sweep) if swept else [self._merged(self._nodes_of(each)) for each in alone]
            for one, found in zip(sweep.stretches, states, strict=True):
                for number in one.asked_by:
                    out[number, found.columns] = found.states
        return (out,), nodes

    def _swept(self, sweep: Sweep) -> list[HeldStates]:
        """Merge the stretches of a sweep: what lies before its edge, what lies behind, and both."""
        before, behind = dict[int, list[HeldStates]](), dict[int, list[HeldStates]]()
        for start, end in sweep.backward():
            before[start] = [self._merged([*self._nodes_of(cover(start, end)), *before.get(end, [])])]
        for start, end in sweep.forward():
            behind[end] = [self._merged([*behind.get(start, []), *self._nodes_of(cover(start, end))])]
        return [self._merged([*before.get(one.lo, []), *behind.get(one.hi, [])]) for one in sweep.stretches]

    def _nodes_of(self, listed: list[tuple[int, int]]) -> list[HeldStates]:
        """Return the states of some nodes."""
        return [self._node(level, at) for level, at in listed]

    def keep(self, first: int, columns: Int64Array) -> None:
        """Forget the slices before ``first`` and all but the given columns, which ascend."""
        moved = np.full(self._width, -1, np.int64)
        moved[columns] = np.arange(len(columns))
        self._leaves = [leaf.moved(moved) for leaf in self._leaves[first:]]
        self._width, self._nodes = len(columns), {}

    def cells(self) -> Planes:
        """Return what each slice holds, [slice, column]."""
        return (self._dense(0, len(self._leaves)),)

    def _dense(self, lo: int, hi: int) -> Array:
        """Return what slices lo … hi - 1 hold, [slice, column]."""
        found = np.full((hi - lo, self._width), None, object)
        for row, leaf in zip(found, self._leaves[lo:hi], strict=True):
            row[leaf.columns] = leaf.states
        return found

    @property
    def nbytes(self) -> int:
        """Return about how much memory the states take, those of nodes included."""
        return sum(one.columns.nbytes + bytes_of(one.states) for one in (*self._leaves, *list(self._nodes.values())))

    def bytes_with(self, slices: int, columns: int) -> int:
        """Return how much memory is taken, whatever the slices and columns: states that are not there take none."""
        return self.nbytes

    def _node(self, level: int, at: int) -> HeldStates:
        """Return the states of a node, merging those of its children where that was not done yet."""
        if level == 0:
            return self._leaves[at]
        known = self._nodes.get((level, at))
        if known is None:
            parts = [self._node(level - 1, at * FAN + child) for child in range(FAN)]
            known = self._nodes[level, at] = self._merged(parts)
        return known

    def _merged(self, parts: Sequence[HeldStates]) -> HeldStates:
        """Merge several states of each column."""
        return HeldStates.merged(self.component, parts)


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
