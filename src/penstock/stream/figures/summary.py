"""Sums up the figures of queries, many at once, and of all queries of a stream together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.model.log_buckets import percentiles
from penstock.stream.figures.figure_table import LEAST, NEVER, RESPONSE, FigureTable

SHARES: Final = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Distribution:
    """One figure over all of its values.

    Percentiles are within 22.5 % of the exact ones. 0 stands for less than a millisecond, of staleness ten; what is
    beyond two hours, of staleness twenty, is told as the maximum.
    """

    count: int
    sum: float
    squares: float  # the sum of squares
    max: float
    p50: float
    p95: float
    p99: float

    @property
    def mean(self) -> float:
        """Return the average."""
        return self.sum / self.count if self.count else 0.0


NO_VALUES: Final = Distribution(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """How soon windows were answered, in short."""

    windows: int = 0
    past_deadline: int = 0
    response_p95_s: float | None = None
    stale_s: float | None = None  # how far the newest answer is behind the watermark; of one query only


NO_ANSWERS: Final = AnswerTimes()


def by_query(table: FigureTable, figure: int) -> dict[int, Distribution]:
    """Sum up one figure of every query, by definition."""
    greatest = table.greatest[:, figure]
    told = percentiles(table.buckets[:, figure].astype(np.int64), greatest, LEAST[figure], SHARES)
    sums = np.column_stack([table.sums[:, figure], table.squares[:, figure], greatest, told]).tolist()
    counts = table.counts[:, figure].tolist()
    return {number: Distribution(counts[row], *sums[row]) for number, row in table.rows.items()}


def together(table: FigureTable, figure: int) -> Distribution:
    """Sum up one figure of all queries together."""
    greatest = table.greatest[:, figure].max(initial=0.0)
    buckets = table.buckets[:, figure].sum(axis=0, dtype=np.int64)
    told = percentiles(buckets, np.asarray(greatest), LEAST[figure], SHARES).tolist()
    sums = float(table.sums[:, figure].sum()), float(table.squares[:, figure].sum())
    return Distribution(int(table.counts[:, figure].sum()), *sums, float(greatest), *told)


def stale_s(table: FigureTable, watermark_us: int | None) -> dict[int, float]:
    """Tell how far the newest answer of each query that has one is behind the watermark."""
    if watermark_us is None:
        return {}
    known = {number: int(table.newest_us[row]) for number, row in table.rows.items()}
    return {number: max(0, watermark_us - end) / 1e6 for number, end in known.items() if end != NEVER}


def answered_by_query(table: FigureTable, watermark_us: int | None) -> Mapping[int, AnswerTimes]:
    """Tell in short how soon the windows of each query were answered."""
    stale, late, rows = stale_s(table, watermark_us), table.late.tolist(), table.rows
    return {
        number: AnswerTimes(one.count, late[rows[number]], one.p95, stale.get(number))
        for number, one in by_query(table, RESPONSE).items()
        if one.count
    }


def answered_together(table: FigureTable) -> AnswerTimes:
    """Tell in short how soon all windows of a stream were answered."""
    one = together(table, RESPONSE)
    return AnswerTimes(one.count, int(table.late.sum()), one.p95) if one.count else NO_ANSWERS
