"""Computes the edge rates of pairs of trees with one window each, exactly and for many pairs at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from penstock.model.arrays import FloatArray
from penstock.model.window import Window
from penstock.share.slices import edges_of
from penstock.share.weave.plan_queries import Places

SEVERAL: Final = 0  # the slide of a row whose tree has more than one window


class Singles:
    """Slides and phases of the trees that have one window; the Chinese remainder theorem, array by array."""

    def __init__(self, rows: int) -> None:
        """Begin without windows."""
        self._slides = np.full(rows, SEVERAL, np.int64)
        self._phases = np.zeros((rows, 2), np.int64)
        self._edges = np.zeros(rows, np.int64)  # in a slide

    def put(self, row: int, windows: Iterable[Window]) -> None:
        """Note a tree's window, if it has but one."""
        known = set(windows)
        self._slides[row] = SEVERAL
        if len(known) == 1:
            progressions = edges_of(known.pop(), "paired")
            self._slides[row], self._edges[row] = progressions[0].step, len(progressions)
            self._phases[row] = [p.phase for p in progressions] * (2 // len(progressions))

    def merge(self, row: int, other: int) -> None:
        """Keep a tree's window if the other one has the same."""
        same = self._slides[row] == self._slides[other] and (self._phases[row] == self._phases[other]).all()
        self._slides[row] = self._slides[row] if same else SEVERAL

    def among(self, row: int, others: Places) -> np.ndarray:
        """Tell which pairs of trees have one window each; none if the first has several."""
        found: np.ndarray = (self._slides[others] != SEVERAL) & (self._slides[row] != SEVERAL)
        return found

    def together(self, row: int, others: Places, unit: int) -> FloatArray:
        """Return the edges per ``unit`` of time of pairs.

        Counts over the composite slide are whole numbers, so that the quotient is the same however it was counted.
        """
        ours, theirs = self._slides[row], self._slides[others]
        shared = np.gcd(ours, theirs)
        counts = self._edges[row] * (theirs // shared) + self._edges[others] * (ours // shared)
        for mine in range(self._edges[row]):
            for yours in range(2):
                meet = (self._phases[row, mine] - self._phases[others, yours]) % shared == 0
                counts = counts - (meet & (yours < self._edges[others]))
        found: FloatArray = counts.astype(np.float64) * unit / (ours // shared * theirs.astype(np.float64))
        return found
