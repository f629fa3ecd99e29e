"""Divides what rows cost among the continuous queries that take them.

A row's part of the bytes and seconds of its batch is divided evenly among its takers, so the shares add up to the
whole. A batch is read for a query that takes none of its rows, too: it pays for the seconds as if it took one more.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.model.arrays import FloatArray, Int64Array


@dataclass(frozen=True, slots=True)
class DividedRows:
    """The rows that were stored of a batch, divided among the queries of its plan."""

    definitions: Sequence[int]
    rows: Int64Array  # that each query takes
    parts: FloatArray  # each query's part of the rows, which each count once
    bytes: int


@dataclass(frozen=True, slots=True)
class RowShare:
    """What one query, or several that are gone, took and cost."""

    rows: int = 0
    seconds: float = 0.0
    bytes: float = 0.0

    def plus(self, rows: int, seconds: float, size: float) -> RowShare:
        """Add what a batch brought."""
        return RowShare(self.rows + rows, self.seconds + seconds, self.bytes + size)


class RowFigures:
    """The figures of one stream's continuous queries; one thread writes them, and others may read them."""

    def __init__(self) -> None:
        """Begin with nothing taken."""
        self._shares: dict[int, RowShare] = {}
        self._gone = RowShare()
        self._changing = threading.Lock()

    def add(self, divided: DividedRows, seconds: float) -> None:
        """Charge the queries of a plan with a batch; those that are not in it any more go."""
        weights = divided.parts + 1.0
        each = (weights / max(1.0, float(weights.sum())) * seconds).tolist()
        stored = (divided.parts / max(1.0, float(divided.parts.sum())) * divided.bytes).tolist()
        with self._changing:
            self._forget_others(set(divided.definitions))
            for number, rows, spent, size in zip(divided.definitions, divided.rows.tolist(), each, stored, strict=True):
                self._shares[number] = self._shares.get(number, RowShare()).plus(rows, spent, size)

    def add_unread(self, seconds: float) -> None:
        """Charge nobody with a batch of which no row was stored."""
        with self._changing:
            self._gone = self._gone.plus(0, seconds, 0.0)

    def add_answered(self, rows: Mapping[int, int]) -> None:
        """Count the rows that queries have answered behind operators; what they cost was charged when they came."""
        with self._changing:
            for number, count in rows.items():
                self._shares[number] = self._shares.get(number, RowShare()).plus(count, 0.0, 0.0)

    def read(self) -> tuple[dict[int, RowShare], RowShare]:
        """Return each query's share by definition, and that of queries that are gone and of nobody."""
        with self._changing:
            return dict(self._shares), self._gone

    def _forget_others(self, current: Collection[int]) -> None:
        """Add the shares of queries that are gone together."""
        for number in [n for n in self._shares if n not in current]:
            one = self._shares.pop(number)
            self._gone = self._gone.plus(0, one.seconds, one.bytes)


def nothing_stored(definitions: Sequence[int]) -> DividedRows:
    """Divide a batch of which nobody took a row."""
    return DividedRows(definitions, np.zeros(len(definitions), np.int64), np.zeros(len(definitions)), 0)
