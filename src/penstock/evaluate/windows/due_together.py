"""Finds the due windows of many queries over the same rows in a few steps over arrays, instead of one by one.

Only what is nearly always the case is found so: windows without gaps between them, all of which are answered, empty
ones too. Where more than ``MOST_EMPTY`` empty windows may follow each other, :func:`due_ends` has to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.evaluate.windows import due
from penstock.evaluate.windows.due import EndRuns
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.window import Window


@dataclass(frozen=True, slots=True)
class DueTogether:
    """What is due of some windows of which one is due at least, as :class:`DueEnds` has it of one; none is skipped."""

    places: Int64Array  # of those windows among all
    firsts: Int64Array
    counts: Int64Array
    slides: Int64Array
    silent: Int64Array  # empty windows right before the next end

    @property
    def next_ends(self) -> Int64Array:
        """Return the ends after those that are due."""
        return self.firsts + self.counts * self.slides

    def runs(self) -> list[EndRuns]:
        """List the due ends of each, without an array of its own for each number."""
        firsts, counts, last = self.firsts, self.counts, self.next_ends - self.slides
        spans = zip(counts.tolist(), firsts.tolist(), last.tolist(), strict=True)
        each = enumerate(zip(self.slides.tolist(), spans, strict=True))
        return [EndRuns(firsts[i : i + 1], counts[i : i + 1], slide, span) for i, (slide, span) in each]


@dataclass(frozen=True, slots=True)
class WindowArrays:
    """The windows of some queries as arrays; each slides by no more than its length."""

    lengths: Int64Array
    slides: Int64Array
    offsets: Int64Array

    @staticmethod
    def of(windows: Sequence[Window]) -> WindowArrays:
        """List windows."""
        names = ("length", "slide", "offset")
        return WindowArrays(*(np.array([getattr(window, name) for window in windows], np.int64) for name in names))

    def last_held_ends(self, present: Int64Array, least_us: int) -> Int64Array:
        """Return the end of the last window of each that holds a row, at least a time; no row is between windows."""
        if not len(present):
            return np.full(len(self.slides), least_us, np.int64)
        ends = present[-1] + self.lengths
        return np.asarray(np.maximum(ends - (ends - self.offsets) % self.slides, least_us), np.int64)

    def due(
        self, next_ends: Int64Array, until_us: int | Int64Array, present: Int64Array, silent: Int64Array
    ) -> tuple[DueTogether, BoolArray]:
        """List what is due up to a time, or one for each; also tell the windows that one has to look at alone.

        ``present`` holds the starts of the slices that have rows, ``silent`` counts the empty windows before each end.
        """
        counts = (until_us - next_ends) // self.slides + 1
        alone = (counts >= 1) & (silent + counts > due.MOST_EMPTY)
        places = np.flatnonzero((counts >= 1) & ~alone)
        firsts, counts, slides = next_ends[places], counts[places], self.slides[places]
        empty = _silent_after(firsts + (counts - 1) * slides, self.lengths[places], slides, present)
        after = np.where(empty < counts, np.maximum(empty, 0), silent[places] + counts)
        return DueTogether(places, firsts, counts, slides, after), alone


def _silent_after(last_ends: Int64Array, lengths: Int64Array, slides: Int64Array, present: Int64Array) -> Int64Array:
    """Count the empty windows from the last row to a last end; beyond any number if there is no row before it."""
    before = present.searchsorted(last_ends)
    if not len(present):
        return np.full(len(last_ends), np.iinfo(np.int64).max)
    empty = -((present[np.maximum(before - 1, 0)] + lengths - last_ends) // slides)
    return np.where(before > 0, empty, np.iinfo(np.int64).max)
