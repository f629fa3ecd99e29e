"""Keeps the figures of a stream's queries in arrays, a row a query, so that a thousand are brought up to date at once.

A query takes some 900 bytes, however long it runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from penstock.model.arrays import FloatArray, Int64Array
from penstock.model.log_buckets import BUCKETS, bucket_of

RESPONSE, SLOWDOWN, TARDINESS, STALENESS = range(4)
LEAST: Final = (0.001, 1.0, 0.001, 0.01)  # that is told apart from nothing: seconds, but for slowdowns
JOB, INGEST, COMMIT, ANSWER = range(4)  # steps whose seconds are divided
NEVER: Final = -(1 << 62)  # answered
TIMES_ALONE: Final = 8  # evaluations of which the low quartile is the ideal time
_FIRST: Final = 16  # rows


class FigureTable:
    """Figures by query; ``gone`` holds the seconds and bytes of queries that are not here any more."""

    def __init__(self) -> None:
        """Begin without queries."""
        self.rows: dict[int, int] = {}  # by definition
        self.buckets = np.zeros((0, 4, BUCKETS), np.uint32)
        self.counts = np.zeros((0, 4), np.int64)
        self.sums = np.zeros((0, 4))
        self.squares = np.zeros((0, 4))
        self.greatest = np.zeros((0, 4))
        self.late = np.zeros(0, np.int64)  # windows that were answered after their deadline
        self.newest_us = np.zeros(0, np.int64)  # end of the newest window that was answered
        self.alone = np.zeros((0, TIMES_ALONE), np.float32)  # seconds of the last evaluations
        self.evaluated = np.zeros(0, np.int64)  # how often
        self.seconds = np.zeros((0, 4))
        self.bytes_sent = np.zeros(0)
        self.gone, self.gone_bytes = np.zeros(4), 0.0

    def rows_of(self, definitions: Sequence[int]) -> Int64Array:
        """Return the rows of queries, new ones where need be."""
        known = self.rows
        try:
            return np.array([known[number] for number in definitions], np.int64)
        except KeyError:
            for number in definitions:
                known.setdefault(number, len(known))
            self._grow()
            return self.rows_of(definitions)

    def add(self, rows: Int64Array, figure: int, values: FloatArray, times: Int64Array) -> None:
        """Count values of a figure, each so many times; a row may come several times."""
        places = rows * 4 + figure
        buckets = places * BUCKETS + bucket_of(values, LEAST[figure])
        np.add.at(self.buckets.reshape(-1), buckets, times.astype(np.uint32))
        np.add.at(self.counts.reshape(-1), places, times)
        np.add.at(self.sums.reshape(-1), places, values * times)
        np.add.at(self.squares.reshape(-1), places, values * values * times)
        np.maximum.at(self.greatest.reshape(-1), places, values)

    def charge(self, rows: Int64Array, step: int, seconds: FloatArray) -> None:
        """Charge seconds of a step to queries; a row may come several times."""
        np.add.at(self.seconds.reshape(-1), rows * 4 + step, seconds)

    def add_alone(self, rows: Int64Array, seconds: FloatArray) -> None:
        """Note what evaluations took, each row once."""
        self.alone[rows, self.evaluated[rows] % TIMES_ALONE] = seconds
        self.evaluated[rows] += 1

    def ideal_s(self, rows: Int64Array) -> FloatArray:
        """Return the low quartile of what the last evaluations of queries took; infinite where there was none."""
        known = np.minimum(self.evaluated[rows], TIMES_ALONE)
        ordered = np.sort(self.alone[rows], axis=1)
        rank = np.maximum(0, -(-known // 4) - 1)
        return np.asarray(ordered[np.arange(len(rows)), rank], np.float64)

    def forget_others(self, current: Collection[int]) -> None:
        """Forget queries that are gone; what they have cost is remembered together."""
        if self.rows.keys() <= set(current):
            return
        kept = [number for number in self.rows if number in current]
        gone = [row for number, row in self.rows.items() if number not in current]
        self.gone += self.seconds[gone].sum(axis=0)
        self.gone_bytes += float(self.bytes_sent[gone].sum())
        places = np.array([self.rows[number] for number in kept], np.int64)
        for name, array in self._arrays():
            setattr(self, name, array[places])
        self.rows = {number: row for row, number in enumerate(kept)}
        self._grow()

    def copy(self) -> FigureTable:
        """Return the figures as they are now, for a reader."""
        copied = FigureTable()
        copied.rows, copied.gone, copied.gone_bytes = dict(self.rows), self.gone.copy(), self.gone_bytes
        for name, array in self._arrays():
            setattr(copied, name, array[: len(self.rows)].copy())
        return copied

    @property
    def nbytes(self) -> int:
        """Return how much memory the figures take."""
        return sum(array.nbytes for _, array in self._arrays())

    def _grow(self) -> None:
        """Make room for all rows, and for some more."""
        if len(self.rows) <= len(self.late):
            return
        size = max(_FIRST, len(self.rows), len(self.late) * 3 // 2)
        fresh = {"newest_us": NEVER, "alone": np.inf}
        for name, array in self._arrays():
            grown = np.full((size, *array.shape[1:]), fresh.get(name, 0), array.dtype)
            grown[: len(array)] = array
            setattr(self, name, grown)

    def _arrays(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """List the arrays that have a row for each query."""
        for name, value in list(vars(self).items()):
            if isinstance(value, np.ndarray) and name != "gone":
                yield name, value
