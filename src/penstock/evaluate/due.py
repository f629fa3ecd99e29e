"""A query's window and the stream's time in, the window ends to answer now out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.model.window import Window

Int64Array = npt.NDArray[np.int64]

MOST_EMPTY: Final = 10_000  # empty windows answered in a row; the rest of the gap is skipped and reported


@dataclass(frozen=True, slots=True)
class DueEnds:
    """Window ends to answer, the next end after them, and how many empty windows were skipped."""

    ends: Int64Array
    next_end_us: int
    skipped: int


def due_ends(window: Window, next_end_us: int, until_us: int, present: Int64Array, *, empty_too: bool) -> DueEnds:
    """List the ends from ``next_end_us`` up to ``until_us``, without the long empty stretches of a silent stream.

    ``present`` holds the starts of the slices that have rows of the stream; ``empty_too``: empty windows are answered.
    """
    if until_us < next_end_us:
        return DueEnds(np.empty(0, np.int64), next_end_us, 0)
    number = (until_us - next_end_us) // window.slide_us + 1
    following = next_end_us + number * window.slide_us
    if empty_too and _short(window, next_end_us, number, present):
        return DueEnds(np.arange(next_end_us, following, window.slide_us, dtype=np.int64), following, 0)
    held = _held(window, next_end_us, number, present)
    if not empty_too:
        return DueEnds(next_end_us + _spread(held) * window.slide_us, following, 0)
    first_run = _empty_before(window, next_end_us, present)
    chosen, skipped = _with_empty(held, number, first_run)
    return DueEnds(next_end_us + chosen * window.slide_us, following, skipped)


def _short(window: Window, next_end_us: int, number: int, present: Int64Array) -> bool:
    """Tell whether there cannot be too many empty windows in a row, by the cheapest bound that shows it."""
    if not len(present):
        return number <= MOST_EMPTY
    since_first = (next_end_us - int(present[0])) // window.slide_us + 1
    if number + max(0, since_first) <= MOST_EMPTY:
        return True
    return number + _silence(window, next_end_us, present) <= MOST_EMPTY


def last_held_end(window: Window, present: Int64Array) -> int | None:
    """Return the end of the last window that holds a row; None if no window does."""
    ends = present + window.range_us
    ends = ends - (ends - window.offset_us) % window.slide_us
    held = ends[ends > present]
    return int(held.max()) if len(held) else None


def _held(window: Window, next_end_us: int, number: int, present: Int64Array) -> npt.NDArray[np.int64]:
    """Return the window numbers that hold rows, as disjoint (first, last) pairs in order."""
    first = -((next_end_us - present - 1) // window.slide_us)  # first end > label
    last = (present + window.range_us - next_end_us) // window.slide_us  # last end ≤ label + range
    first, last = np.maximum(first, 0), np.minimum(last, number - 1)
    keep = first <= last
    first, last = first[keep], np.maximum.accumulate(last[keep]) if keep.any() else last[keep]
    if not len(first):
        return np.empty((0, 2), np.int64)
    fresh = np.concatenate([[True], first[1:] > last[:-1] + 1])
    finals = np.concatenate([np.flatnonzero(fresh)[1:] - 1, [len(first) - 1]])
    return np.stack([first[fresh], last[finals]], axis=1)


def _spread(pairs: npt.NDArray[np.int64]) -> Int64Array:
    """List the numbers within (first, last) pairs."""
    if not len(pairs):
        return np.empty(0, np.int64)
    return np.concatenate([np.arange(first, last + 1, dtype=np.int64) for first, last in pairs.tolist()])


def _with_empty(held: npt.NDArray[np.int64], number: int, first_run: int) -> tuple[Int64Array, int]:
    """Add the first empty windows of every gap; also count those left out."""
    chosen, skipped, position, allowed = [], 0, 0, max(0, MOST_EMPTY - first_run)
    for first, last in [*held.tolist(), (number, number - 1)]:
        gap = first - position
        taken = min(gap, allowed)
        skipped += gap - taken
        chosen += [np.arange(position, position + taken, dtype=np.int64), np.arange(first, last + 1, dtype=np.int64)]
        position, allowed = last + 1, MOST_EMPTY
    return np.concatenate(chosen), skipped


def _empty_before(window: Window, next_end_us: int, present: Int64Array) -> int:
    """Count the empty windows right before the next one."""
    before = present[present < next_end_us]
    last = last_held_end(window, before)
    if last is None or last >= next_end_us:
        return 0
    return (next_end_us - last) // window.slide_us - 1


def _silence(window: Window, next_end_us: int, present: Int64Array) -> int:
    """Bound the empty windows right before the next one from above, cheaply."""
    before = int(np.searchsorted(present, next_end_us))
    if not before:
        return 0
    if window.range_us < window.slide_us:  # a row may fall between two windows and be held by none
        return _empty_before(window, next_end_us, present)
    return (next_end_us - int(present[before - 1])) // window.slide_us + 1
