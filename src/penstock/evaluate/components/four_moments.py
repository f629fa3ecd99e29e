"""The mean of an argument and the second, third and fourth powers of the distances from it, summed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Column, Component, Plane, Planes, Values, Written
from penstock.evaluate.components.moments import DOUBLE
from penstock.evaluate.components.reading import doubles, integers
from penstock.evaluate.components.row_runs import RowColumn, RowRuns, centred, masked

# Doubles nearer to zero count as zero. Spark's skewness() divides by the root of m2³, and fails where that vanishes
# though m2 does not: doubles of this size differ by 2^-172 or more, so m2³ is at least 2^-1035.
NEAREST: Final = "1e-36D"


class FourMoments(Component):
    """Five numbers (n, mean, m2, m3, m4) with mk the sum of the k-th powers of the distances from the mean.

    A mean that is off in its last digit would tell equal values of two slices apart, so of equal values the mean is
    the value itself, which a sum divided by a count need not be.
    """

    __slots__ = ()
    kind: ClassVar = "moments4"

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Say what the five numbers are."""
        return (Plane(np.dtype(np.int64), 0), DOUBLE, DOUBLE, DOUBLE, DOUBLE)

    @property
    def columns(self) -> tuple[str, ...]:
        """Tell the five numbers."""
        powers = (f": sum of {power} powers of distances from the mean" for power in ("second", "third", "fourth"))
        return (": values", ": mean", *powers)

    def lift(self, value: Written, time: str) -> list[str]:
        """Turn Spark's own variance, skewness and kurtosis, all NULL or 0 of equal values, back into sums."""
        (x,) = self.row_texts(value, time)
        n, variance = f"count({x})", f"var_pop({x})"
        return [
            n,
            f"CASE WHEN {variance} = 0 THEN min({x}) ELSE avg({x}) END",
            f"{variance} * {n}",
            f"skewness({x}) * {variance} * sqrt({variance}) * {n}",
            f"(kurtosis({x}) + 3) * {variance} * {variance} * {n}",
        ]

    def row_texts(self, value: Written, time: str) -> list[str]:
        """Write the value as a double, those nearest to zero as zero."""
        assert self.argument is not None
        x = f"cast({value(self.argument)} as double)"
        return [f"CASE WHEN abs({x}) < {NEAREST} THEN 0.0D ELSE {x} END" if pa.types.is_float64(self.type) else x]

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Compute the mean, then powers of the distances from it; of equal values the mean is the value itself."""
        count, mean, distances = centred(columns[0], runs, exact=True)
        held = runs.held(columns[0])
        with np.errstate(all="ignore"):
            powers = [runs.add_up(distances**power) for power in (2, 3, 4)]
        return [pa.array(count), masked(mean, held), *(masked(one, held) for one in powers)]

    def read(self, columns: Sequence[Column]) -> Values:
        """Read the count and the doubles."""
        return (integers(columns[0]), *(doubles(column) for column in columns[1:]))

    def combine(self, a: Planes, b: Planes) -> Planes:
        """Merge counts, means and powers (Chan, Golub and LeVeque 1979; the higher ones as in Pébay 2008, §3)."""
        n = a[0] + b[0]
        with np.errstate(all="ignore"):
            delta, all_ = b[1] - a[1], np.maximum(n, 1)
            p, q, square = a[0] / all_, b[0] / all_, delta * delta
            weight = a[0] * q
            merged: Planes = (
                a[1] + delta * q,
                a[2] + b[2] + square * weight,
                a[3] + b[3] + delta * square * weight * (p - q) + 3 * delta * (p * b[2] - q * a[2]),
                a[4]
                + b[4]
                + square * square * weight * (p * p - p * q + q * q)
                + 6 * square * (p * p * b[2] + q * q * a[2])
                + 4 * delta * (p * b[3] - q * a[3]),
            )
        # An empty side must not touch the other: 0 · inf² would be NaN.
        for empty, other in ((a[0] == 0, b), (b[0] == 0, a)):
            merged = tuple(np.where(empty, own, plane) for own, plane in zip(other[1:], merged, strict=True))
        return (n, *merged)
