"""Finds the pairs of rows that are in the windows of two streams together, also in windows of the last rows.

A row is in ``[RANGE r]`` from its time until r after it, and in ``[PARTITION BY k ROWS n]`` from its time until the
n-th next row of its k has come. So each row has a stretch of time, and two rows with equal keys are a pair where their
stretches meet; the time of the pair is when they begin to. Only times are looked at before which no row is to come::

    a, last row of each k   1====2=======5======
    b [RANGE 3 s]              3======
                               ^ (2, 3)  not (1, 3): 1 has left at 2, whichever batch brought it
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.groups import distinct_rows, told_apart
from penstock.kernel.join_index import JUDGED, TIME, JoinIndex, RowRun, first_not_before, ordered_run
from penstock.model.arrays import Int64Array
from penstock.model.stream_join import JoinSide

FOREVER: Final = 1 << 62  # when a row leaves that nothing has pushed out yet
LEAVES: Final = "__leaves"  # the first time at which a row is not in its window any more


@dataclass(slots=True)
class WindowedRows(JoinIndex):
    """The rows of one side that are in its window, or are still to be."""

    side: JoinSide = field(kw_only=True)
    inside: pa.Table | None = None
    coming: pa.Table | None = None  # rows before which others may still come
    _settling: tuple[pa.Table, pa.Table] | None = None  # what is inside and coming after the step

    def add(self, rows: pa.Table, first: int, last: int) -> None:
        """Add the rows of some commits; late ones are in no window of rows, and in none beside one."""
        on_time = rows.filter(pc.greater_equal(rows[TIME], rows[JUDGED]))
        known = [] if self.coming is None else [self.coming]
        self.coming = pa.concat_tables([*known, on_time], promote_options="default").combine_chunks()

    def settled(self, upto_us: int) -> RowRun | None:
        """Return the rows before a time that can have partners, with the time at which each leaves, in order of key."""
        tables = [table for table in (self.inside, self.coming) if table is not None]
        if not tables:
            return None
        whole = pa.concat_tables(tables, promote_options="default").combine_chunks()
        is_settled = pa.array(np.asarray(whole[TIME].to_numpy(), np.int64) < upto_us)
        rows = whole.filter(is_settled)
        leaves = self._leaves(rows)
        self._settling = rows.filter(pa.array(leaves > upto_us)), whole.filter(pc.invert(is_settled))
        rows = rows.append_column(LEAVES, pa.array(leaves))
        rows = rows.filter(pa.array(leaves > np.asarray(rows[TIME].to_numpy(), np.int64)))
        for key in self.keys:
            rows = rows.filter(pc.is_valid(rows[key]))
        return ordered_run(rows.combine_chunks(), self.keys, 0, 0) if rows.num_rows else None

    def let_go(self) -> pa.Table | None:
        """Let go of the rows that left in the last step, once its pairs are taken; return those inside."""
        if self._settling is not None:
            (self.inside, self.coming), self._settling = self._settling, None
        return self.inside

    def _leaves(self, rows: pa.Table) -> Int64Array:
        """Tell when each row leaves its window, as far as the rows tell that have come."""
        times = np.asarray(rows[TIME].to_numpy(), np.int64)
        if not self.side.rows:
            return times + self.side.range_us + 1
        parts = _parts(rows, self.side.partition)
        order = _in_order(rows, parts, times, sorted({*self.keys, *self.side.columns, *self.side.partition}))
        n, found = self.side.rows, np.full(len(times), FOREVER, np.int64)
        if n < len(order):
            pushed, by = order[:-n], order[n:]
            same = parts[pushed] == parts[by]
            found[pushed[same]] = times[by[same]]
        return found

    @property
    def rows(self) -> int:
        """Count the rows that are held."""
        return sum(table.num_rows for table in (self.inside, self.coming) if table is not None)

    @property
    def waiting(self) -> int:
        """Count the rows that go once the other side has come on: the last ones of a partition stay."""
        counted = (self.coming,) if self.side.rows else (self.inside, self.coming)
        return sum(table.num_rows for table in counted if table is not None)

    @property
    def bytes(self) -> int:
        """Return the bytes that they take."""
        return sum(table.nbytes for table in (self.inside, self.coming) if table is not None)


def meeting(one: RowRun, other: RowRun, since_us: int, *, same_time: bool) -> tuple[Int64Array, Int64Array]:
    """Find for each row of one run where those of the other begin and end that come while it is in its window.

    Rows of the same time come, or do not: then they find the first run's. Partners come at a time or later.
    """
    low = np.searchsorted(other.codes, one.codes, "left")
    high = np.searchsorted(other.codes, one.codes, "right")
    first = first_not_before(other.times, low, high, np.maximum(one.times + (not same_time), since_us))
    return first, first_not_before(other.times, first, high, leaves_of(one))


def leaves_of(run: RowRun) -> Int64Array:
    """Read when the rows of a run leave."""
    return np.asarray(run.rows[LEAVES].to_numpy(), np.int64)


def _parts(rows: pa.Table, partition: tuple[str, ...]) -> Int64Array:
    """Number the partitions of rows; NULL is a value, and without columns all rows are of one."""
    if not partition:
        return np.zeros(rows.num_rows, np.int64)
    return distinct_rows([told_apart(_as_keys(rows[name]))[0] for name in partition])[0]


def _as_keys(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Write numbers as groups are told apart: NaN is NaN, and −0.0 is 0.0."""
    if not pa.types.is_floating(column.type):
        return column
    plain = pc.add(column, pa.scalar(0.0, column.type))
    return pc.if_else(pc.is_nan(plain), pa.scalar(math.nan, column.type), plain)


def _in_order(rows: pa.Table, parts: Int64Array, times: Int64Array, columns: list[str]) -> Int64Array:
    """Order rows by partition, then time; of one time, by their columns, so that it does not matter how they came."""
    order = np.lexsort((times, parts))
    tied = (parts[order][1:] == parts[order][:-1]) & (times[order][1:] == times[order][:-1])
    if not tied.any():
        return order
    among = np.unique(np.concatenate([np.flatnonzero(tied), np.flatnonzero(tied) + 1]))
    places = np.sort(order[among])
    rank = np.zeros(rows.num_rows, np.int64)
    rank[places[_by_content(rows.take(pa.array(places)), columns)]] = np.arange(len(places))
    return np.lexsort((rank, times, parts))


def _by_content(rows: pa.Table, columns: list[str]) -> Int64Array:
    """Order rows by their columns; values that have no order of their own, by their text."""
    sorted_by = {}
    for name in columns:
        column = rows[name]
        plain = not pa.types.is_nested(column.type)
        sorted_by[name] = column if plain else pa.array([repr(value) for value in column.to_pylist()], pa.string())
    table = pa.table(sorted_by)
    keys = [(name, "ascending") for name in columns]
    return np.asarray(pc.sort_indices(table, sort_keys=keys).to_numpy(), np.int64)
