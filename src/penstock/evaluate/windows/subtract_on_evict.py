"""Slides windows of invertible states: takes out the slices that left, merges those that came.

A window is made from one before it, as subtract-on-evict does (Hirzel, Schneider and Tangwongsan 2017, §3). Where that
is more work than merging, or code failed, or many steps went by (rounding adds up), the window is merged anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from penstock.evaluate.components.component import Array, Planes
from penstock.evaluate.components.frequencies import objects
from penstock.evaluate.components.user_states import Failed, UserState
from penstock.evaluate.windows.held_states import HeldStates
from penstock.evaluate.windows.lazy_state_tree import LazyStateTree, cover
from penstock.model.arrays import Int64Array

REMEMBERED: Final = 16  # windows: queries of several ranges share a lane
MOST_STEPS: Final = 64  # from one window to the next without merging anew


@dataclass(frozen=True, slots=True)
class _Window:
    """A stretch of slices, its states by column, in how many slices each column has one, and the steps it took."""

    lo: int
    hi: int
    states: Array
    held: Int64Array
    steps: int


class SubtractOnEvict(LazyStateTree):
    """One component of a user's aggregate with ``invert``."""

    def __init__(self, component: UserState) -> None:
        """Begin without slices or columns."""
        super().__init__(component)
        self._user = component
        self._windows: list[_Window] = []

    def place(self, rows: Int64Array, slices: int, columns: int) -> None:
        """Make room; windows of other slices or columns are forgotten."""
        if columns != self._width or (len(rows) and rows[-1] != len(self._leaves) - 1):
            self._windows = []
        super().place(rows, slices, columns)

    def add(self, rows: Int64Array, columns: Int64Array, planes: Planes) -> None:
        """Combine states into slices, and forget the windows that hold one of them."""
        first = int(rows.min())
        self._windows = [window for window in self._windows if window.hi <= first]
        super().add(rows, columns, planes)

    def keep(self, first: int, columns: Int64Array) -> None:
        """Forget slices and columns, and the windows with them."""
        self._windows = []
        super().keep(first, columns)

    def merge(self, lo: Int64Array, hi: Int64Array) -> tuple[Planes, int]:
        """Return the states of slices lo … hi - 1, [evaluation, column], and the states merged or taken out."""
        out, nodes = np.full((len(lo), self._width), None, object), 0
        shorter: _Window | None = None
        for number in np.lexsort((-lo, hi)).tolist():  # of one end, the shortest first
            start, end = int(lo[number]), int(hi[number])
            window, work = self._window(start, end, shorter if shorter is not None and shorter.hi == end else None)
            self._windows = [window, *(w for w in self._windows if w is not window)][:REMEMBERED]
            out[number], nodes, shorter = window.states, nodes + work, window
        return (out,), nodes

    def _window(self, lo: int, hi: int, shorter: _Window | None) -> tuple[_Window, int]:
        """Make a window from the nearest one before it, from a shorter one with its end, or anew."""
        before = [w for w in self._windows if w.lo <= lo <= w.hi <= hi and w.steps < MOST_STEPS]
        nearest = min(before, key=lambda w: lo - w.lo + hi - w.hi, default=None)
        whole, added = len(cover(lo, hi)), len(cover(lo, hi if shorter is None else shorter.lo))
        least = min(whole, added)
        if nearest is not None and lo - nearest.lo + hi - nearest.hi < least:
            slid = self._slid(nearest, lo, hi)
            if not any(isinstance(state, Failed) for state in slid.states):
                return slid, lo - nearest.lo + hi - nearest.hi
        if shorter is not None and added < whole:
            return self._lengthened(shorter, lo), added
        (states,), work = super().merge(np.array([lo]), np.array([hi]))
        return _Window(lo, hi, states[0], _held(self._dense(lo, hi)), 0), work

    def _lengthened(self, window: _Window, lo: int) -> _Window:
        """Put in the slices before a window: nothing leaves it."""
        newer = HeldStates.of(np.arange(self._width), window.states)
        found = self._merged([*self._nodes_of(cover(lo, window.lo)), newer])
        states = np.full(self._width, None, object)
        states[found.columns] = found.states
        return _Window(lo, window.hi, states, _held(self._dense(lo, window.lo)) + window.held, window.steps)

    def _slid(self, window: _Window, lo: int, hi: int) -> _Window:
        """Put in what came and take out what left."""
        came, left = self._dense(window.hi, hi), self._dense(window.lo, lo)
        held = window.held + _held(came) - _held(left)
        grown = self.component.merge_each(_columns([window.states, *came]))
        gone = self.component.merge_each(_columns(list(left))) or [None] * len(grown)
        pairs = zip(grown, gone, held.tolist(), strict=True)
        states = [self._user.without(whole, part) if count else None for whole, part, count in pairs]
        return _Window(lo, hi, objects(states), held, window.steps + 1)


def _held(leaves: Array) -> Int64Array:
    """Count, by column, the slices that have a state."""
    there = np.frompyfunc(lambda state: state is not None, 1, 1)(leaves)
    return np.asarray(there.astype(np.int64).sum(axis=0), np.int64)


def _columns(parts: list[Array]) -> list[list[Any]]:
    """List the states of each column."""
    return [[state for state in column if state is not None] for column in zip(*parts, strict=True)] if parts else []
