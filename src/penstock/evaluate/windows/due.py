"""Lists the window ends of a query that are to be answered now, as runs: few numbers, however many windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.model.arrays import Int64Array
from penstock.model.window import Window

MOST_EMPTY: Final = 10_000  # empty windows answered in a row; the rest of the silence is skipped and reported


@dataclass(frozen=True, slots=True)
class EndRuns:
    """Window ends in order, as runs of neighbours one slide apart.

    Of thousands of queries, each with one run a batch, ``span`` is asked for many times, and to read a number out of an
    array takes longer than all else that is done with it.
    """

    firsts: Int64Array  # the first end of each run
    counts: Int64Array  # ends in each run, at least one
    slide_us: int
    span: tuple[int, int, int] | None = None  # of one run: how many ends, the first and the last

    @staticmethod
    def between(first_us: int, last_us: int, slide_us: int) -> EndRuns:
        """Make one run of all ends from the first to the last; none if the last is before the first."""
        count = (last_us - first_us) // slide_us + 1
        if count < 1:
            return EndRuns(np.empty(0, np.int64), np.empty(0, np.int64), slide_us)
        span = int(count), int(first_us), int(first_us + (count - 1) * slide_us)
        return EndRuns(np.array([first_us], np.int64), np.array([count], np.int64), slide_us, span)

    @staticmethod
    def listed(ends: Int64Array) -> EndRuns:
        """Take ends that are listed one by one, in order."""
        return EndRuns(ends, np.ones(len(ends), np.int64), 1)

    def __len__(self) -> int:
        """Count the ends; nearly always there is one run."""
        return int(self.counts.sum()) if self.span is None else self.span[0]

    @property
    def first_us(self) -> int:
        """Return the first end."""
        return int(self.firsts[0]) if self.span is None else self.span[1]

    @property
    def last_us(self) -> int:
        """Return the last end; before all times if there is none."""
        if self.span is not None:
            return self.span[2]
        if not len(self.firsts):
            return -(1 << 62)
        return int(self.firsts[-1]) + (int(self.counts[-1]) - 1) * self.slide_us

    @property
    def lasts(self) -> Int64Array:
        """Return the last end of each run."""
        return self.firsts + (self.counts - 1) * self.slide_us

    def cut(self, after_us: int | None, upto_us: int) -> EndRuns:
        """Keep the ends after a time, if one is given, and up to another."""
        if len(self.firsts) == 1:  # nearly always, and thousands of times a batch
            first, last = self.first_us, self.last_us
            if (after_us is None or after_us < first) and last <= upto_us:
                return self
            if after_us is not None and after_us >= first:
                first += ((after_us - first) // self.slide_us + 1) * self.slide_us
            return EndRuns.between(first, min(last, upto_us), self.slide_us)
        low = np.zeros_like(self.counts)
        if after_us is not None:
            low = np.clip((after_us - self.firsts) // self.slide_us + 1, 0, self.counts)
        high = np.clip((upto_us - self.firsts) // self.slide_us + 1, 0, self.counts)
        kept = high > low
        return EndRuns(self.firsts[kept] + low[kept] * self.slide_us, (high - low)[kept], self.slide_us)

    def to_array(self) -> Int64Array:
        """List the ends one by one."""
        if len(self.firsts) == 1:
            number = len(self)
            return self.firsts if number == 1 else self.first_us + np.arange(number, dtype=np.int64) * self.slide_us
        before = np.cumsum(self.counts) - self.counts
        within = np.arange(len(self), dtype=np.int64) - np.repeat(before, self.counts)
        return np.asarray(np.repeat(self.firsts, self.counts) + within * self.slide_us, np.int64)


@dataclass(frozen=True, slots=True)
class Silence:
    """How many windows of a query were empty in a row, and how many empty ones it has not answered so far."""

    empty: int = 0
    skipped: int = 0


NO_SILENCE: Final = Silence()


@dataclass(frozen=True, slots=True)
class DueEnds:
    """Window ends to answer, the next end after them, and what became of empty windows."""

    ends: EndRuns
    next_end_us: int
    silent: int  # empty windows right before the next end, answered or skipped
    skipped: int = 0  # empty windows that are not answered
    begun: int = 0  # silences of which the first window was skipped now


def due_ends(
    window: Window, next_end_us: int, until_us: int, present: Int64Array, *, empty_too: bool, silent: int = 0
) -> DueEnds:
    """List the ends from ``next_end_us`` up to ``until_us``, without the long empty stretches of a silent stream.

    ``present`` holds the starts of the slices that have rows of the stream; ``empty_too``: empty windows are answered,
    up to ``MOST_EMPTY`` in a row, ``silent`` of which came right before the first end.
    """
    number = (until_us - next_end_us) // window.slide + 1
    if number < 1:
        return DueEnds(EndRuns.between(next_end_us, until_us, window.slide), next_end_us, silent)
    following = next_end_us + number * window.slide
    if empty_too and silent + number <= MOST_EMPTY:
        ends = EndRuns.between(next_end_us, until_us, window.slide)
        return DueEnds(ends, following, _silent_after(window, next_end_us, number, present, silent))
    held = _held(window, next_end_us, number, present)
    if not empty_too:
        return DueEnds(_runs(held, next_end_us, window.slide), following, 0)
    return _with_empty(held, number, silent, next_end_us, window.slide)


def last_held_end(window: Window, present: Int64Array) -> int | None:
    """Return the end of the last window that holds a row; None if no window does."""
    ends = present + window.length
    ends = ends - (ends - window.offset) % window.slide
    held = ends[ends > present]
    return int(held.max()) if len(held) else None


def _silent_after(window: Window, next_end_us: int, number: int, present: Int64Array, silent: int) -> int:
    """Count the empty windows at the end of a stretch of windows."""
    last_end = next_end_us + (number - 1) * window.slide
    before = int(present.searchsorted(last_end))
    if not before:
        return silent + number
    if window.length < window.slide:  # a row may fall between two windows and be held by none
        held = _held(window, next_end_us, number, present)
        return number - 1 - int(held[-1, 1]) if len(held) else silent + number
    empty = -((int(present[before - 1]) + window.length - last_end) // window.slide)
    return 0 if empty <= 0 else (empty if empty < number else silent + number)


def _held(window: Window, next_end_us: int, number: int, present: Int64Array) -> npt.NDArray[np.int64]:
    """Return the window numbers that hold rows, as disjoint (first, last) pairs in order."""
    first = -((next_end_us - present - 1) // window.slide)  # first end > label
    last = (present + window.length - next_end_us) // window.slide  # last end ≤ label + range
    first, last = np.maximum(first, 0), np.minimum(last, number - 1)
    keep = first <= last
    first, last = first[keep], np.maximum.accumulate(last[keep]) if keep.any() else last[keep]
    if not len(first):
        return np.empty((0, 2), np.int64)
    fresh = np.concatenate([[True], first[1:] > last[:-1] + 1])
    finals = np.concatenate([np.flatnonzero(fresh)[1:] - 1, [len(first) - 1]])
    return np.stack([first[fresh], last[finals]], axis=1)


def _runs(pairs: npt.NDArray[np.int64], next_end_us: int, slide_us: int) -> EndRuns:
    """Turn (first, last) pairs of window numbers into runs of ends."""
    return EndRuns(next_end_us + pairs[:, 0] * slide_us, pairs[:, 1] - pairs[:, 0] + 1, slide_us)


def _with_empty(held: npt.NDArray[np.int64], number: int, silent: int, next_end_us: int, slide_us: int) -> DueEnds:
    """Add the first empty windows of every silence to those that hold rows, and count the others."""
    begins = np.concatenate([[0], held[:, 1] + 1])  # of the gaps before, between and behind those that hold rows
    gaps = np.concatenate([held[:, 0], [number]]) - begins
    known = np.zeros(len(gaps), np.int64)  # empty windows of a gap that came before
    known[0] = silent
    answered = np.minimum(gaps, np.maximum(0, MOST_EMPTY - known))
    skipped = gaps - answered
    listed = np.stack([begins, begins + answered - 1], axis=1)  # of a gap: its first windows
    pairs = np.concatenate([listed, held])
    pairs = pairs[pairs[:, 1] >= pairs[:, 0]]
    ends = _runs(pairs[np.argsort(pairs[:, 0])], next_end_us, slide_us)
    begun = int(np.count_nonzero((skipped > 0) & (known <= MOST_EMPTY)))
    after = int(gaps[-1]) + (silent if not len(held) else 0)
    return DueEnds(ends, next_end_us + number * slide_us, after, int(skipped.sum()), begun)
