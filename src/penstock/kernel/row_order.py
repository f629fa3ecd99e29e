"""Sorts and numbers rows in the driver, in the order that windows of rows have.

The order is that of the rows' times, then of a hash that Spark made of the row, then of its columns. Two rows of one
time and one hash are all but certainly the same row twice, and their order changes nothing. If they are not, only Spark
knows which of them comes first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.reading import whole
from penstock.evaluate.components.value_tables import plain_zero
from penstock.kernel.partitions import Partitions
from penstock.model.arrays import Int64Array


def in_order(rows: pa.Table, time: str, hashed: str) -> pa.Table | None:
    """Sort rows by their time and their hash; None: two rows that differ have the same ones."""
    rows = rows.combine_chunks()
    times, hashes = rows[time].to_numpy(), rows[hashed].to_numpy()
    order = np.lexsort((hashes, times))
    times, hashes = times[order], hashes[order]
    tied = np.flatnonzero((times[1:] == times[:-1]) & (hashes[1:] == hashes[:-1]))
    if len(tied) and not rows.take(pa.array(order[tied])).equals(rows.take(pa.array(order[tied + 1]))):
        return None
    return rows.take(pa.array(order))


def numbers_from(first: int, rows: pa.Table) -> Int64Array:
    """Number rows in their order from a number on."""
    return np.arange(first, first + rows.num_rows, dtype=np.int64)


def numbers_apart(parts: Partitions, rows: pa.Table, partition: Sequence[str]) -> Int64Array:
    """Number the rows of each key on their own, in their order, each from its next number on."""
    firsts = parts.next_numbers([pa.chunked_array([plain_zero(whole(rows[name]))]) for name in partition])
    order = np.argsort(firsts, kind="stable")
    ordered = firsts[order]
    begins = np.searchsorted(ordered, ordered)  # where the rows of the same key begin
    numbers = np.empty(len(firsts), np.int64)
    numbers[order] = ordered + np.arange(len(firsts)) - begins
    return numbers
