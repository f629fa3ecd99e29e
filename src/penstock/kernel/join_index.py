"""Finds the rows of one side of a window join that have a key and lie within a stretch of time.

The rows are kept in runs, each in order of the code of their keys, then of their time. New rows are a run of their own;
runs of like size are put together, so a row is moved as often as the logarithm of their number. A code is the key
itself where it is one whole number, else its hash, and then pairs are compared by their keys too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.arrays import Int64Array
from penstock.model.stream_join import code_name

TIME: Final = "__us"  # of a row, in microseconds
COMMIT: Final = "__commit"  # that brought it
JUDGED: Final = "__judged"  # the watermark by which it was told late or on time
PLACE: Final = "__place"  # in its commit, where rows are told apart by number
OWN: Final = (TIME, COMMIT, JUDGED)  # columns of kept rows besides the stream's
FEWER_TIMES: Final = 2  # a run is put to the one before that is not so much longer

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RowRun:
    """Rows of some commits in order of code and time."""

    first: int  # commit
    last: int
    codes: Int64Array
    times: Int64Array
    rows: pa.Table  # with the columns of OWN

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.codes)

    def chosen(self, wanted: Bools) -> RowRun:
        """Keep some rows."""
        places = np.flatnonzero(wanted)
        return RowRun(self.first, self.last, self.codes[places], self.times[places], self.rows.take(pa.array(places)))


class Match(NamedTuple):
    """Pairs of rows by their places in two runs."""

    probing: Int64Array
    found: Int64Array


@dataclass(slots=True)
class JoinIndex:
    """The rows of one side that may still find a partner."""

    keys: tuple[str, ...]
    runs: list[RowRun] = field(default_factory=list)

    def add(self, rows: pa.Table, first: int, last: int) -> None:
        """Add the rows of some commits; those with a NULL among their keys never find a partner."""
        for key in self.keys:
            rows = rows.filter(pc.is_valid(rows[key]))
        if rows.num_rows:
            self.runs.append(ordered_run(rows.combine_chunks(), self.keys, first, last))

    def merge(self, upto: int) -> None:
        """Put runs of like size together, of commits that everybody has taken."""
        done = [run for run in self.runs if run.last <= upto]
        rest = self.runs[len(done) :]
        while len(done) > 1 and len(done[-2]) <= FEWER_TIMES * len(done[-1]):
            later, earlier = done.pop(), done.pop()
            done.append(_together(earlier, later, self.keys))
        self.runs = done + rest

    def expire(self, before_us: int, upto: int) -> None:
        """Let go of rows before a time, of commits that everybody has taken, once they are half of a run."""
        kept = []
        for run in self.runs:
            needed = run.times >= before_us
            count = int(needed.sum()) if run.last <= upto else len(run)
            if 0 < count * 2 <= len(run):
                kept.append(run.chosen(needed))
            elif count:
                kept.append(run)
        self.runs = kept

    def split(self, taken: int) -> tuple[list[RowRun], list[RowRun]]:
        """Tell rows of commits that were taken from those of later ones."""
        return [r for r in self.runs if r.last <= taken], [r for r in self.runs if r.last > taken]

    @property
    def rows(self) -> int:
        """Count the rows that are held."""
        return sum(map(len, self.runs))

    @property
    def waiting(self) -> int:
        """Count the rows that go once the other side has come on."""
        return self.rows

    @property
    def bytes(self) -> int:
        """Return the bytes that they take."""
        return sum(run.rows.nbytes + run.codes.nbytes + run.times.nbytes for run in self.runs)


def count_between(probing: RowRun, run: RowRun, before_us: int, after_us: int) -> tuple[Int64Array, Int64Array]:
    """Find for each row of one run where those of the other begin and end whose time is not too far before or after."""
    low = np.searchsorted(run.codes, probing.codes, "left")
    high = np.searchsorted(run.codes, probing.codes, "right")
    first = first_not_before(run.times, low, high, probing.times - before_us)
    return first, first_not_before(run.times, first, high, probing.times + after_us + 1)


def matches(probing: RowRun, run: RowRun, first: Int64Array, last: Int64Array, keys: Sequence[Sequence[str]]) -> Match:
    """List the pairs whose keys are equal; ``keys`` are the names of both runs' columns."""
    counts = last - first
    mine = np.repeat(np.arange(len(probing)), counts)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    other = np.repeat(first, counts) + within
    if len(mine) and not is_exact([probing.rows.schema.field(key).type for key in keys[0]]):
        same = np.ones(len(mine), np.bool_)
        for key, their in zip(*keys, strict=True):
            same &= _equal(probing.rows[key].take(pa.array(mine)), run.rows[their].take(pa.array(other)))
        mine, other = mine[same], other[same]
    return Match(np.asarray(mine, np.int64), np.asarray(other, np.int64))


def is_exact(types: Sequence[pa.DataType]) -> bool:
    """Tell whether keys are one whole number, which is its own code."""
    return len(types) == 1 and _is_whole(types[0])


def _is_whole(found: pa.DataType) -> bool:
    """Tell whether values are whole numbers, or are kept as such."""
    return bool(
        pa.types.is_integer(found) or pa.types.is_timestamp(found) or pa.types.is_date32(found) or found == pa.bool_()
    )


def ordered_run(rows: pa.Table, keys: tuple[str, ...], first: int, last: int) -> RowRun:
    """Sort rows by code and time."""
    codes = _codes(rows, keys)
    times = np.asarray(rows[TIME].to_numpy(), np.int64)
    order = np.lexsort((times, codes))
    return RowRun(first, last, codes[order], times[order], rows.take(pa.array(order)).combine_chunks())


def _codes(rows: pa.Table, keys: tuple[str, ...]) -> Int64Array:
    """Return the codes of rows' keys."""
    if is_exact([rows.schema.field(key).type for key in keys]):
        column = rows[keys[0]]
        if pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        elif pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        return np.asarray(column.to_numpy(), np.int64)
    return np.asarray(rows[code_name(keys)].to_numpy(), np.int64)


def _together(one: RowRun, other: RowRun, keys: tuple[str, ...]) -> RowRun:
    """Put two runs together."""
    rows = pa.concat_tables([one.rows, other.rows], promote_options="default").combine_chunks()
    codes, times = np.concatenate([one.codes, other.codes]), np.concatenate([one.times, other.times])
    order = np.lexsort((times, codes))
    return RowRun(one.first, other.last, codes[order], times[order], rows.take(pa.array(order)).combine_chunks())


def first_not_before(times: Int64Array, low: Int64Array, high: Int64Array, sought: Int64Array) -> Int64Array:
    """Find in each stretch of ordered times the first that is not before the one sought."""
    low, high = low.astype(np.int64), high.astype(np.int64)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        before = np.zeros(len(low), np.bool_)
        before[open_] = times[middle[open_]] < sought[open_]
        low = np.where(before, middle + 1, low)
        high = np.where(open_ & ~before, middle, high)
    return low


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Bools:
    """Compare keys as groups are told apart: NaN is NaN, and −0.0 is 0.0."""
    if pa.types.is_floating(left.type):
        one, other = np.asarray(left.to_numpy()), np.asarray(right.to_numpy())
        return np.asarray((one == other) | (np.isnan(one) & np.isnan(other)), np.bool_)
    return np.asarray(pc.equal(left, right).to_numpy(), np.bool_)
