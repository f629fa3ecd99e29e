"""The mean of an argument, or of two, and how far values are from it, merged without losing digits to large means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Column, Component, Plane, Planes, Values, Written
from penstock.evaluate.components.reading import doubles, integers
from penstock.evaluate.components.row_runs import RowColumn, RowRuns, centred, masked
from penstock.model.arrays import Int64Array

DOUBLE: Final = Plane(np.dtype(np.float64), 0.0)


class Moments(Component):
    """A triple (n, mean, m2) with m2 the sum of squared distances from the mean."""

    __slots__ = ()
    kind: ClassVar = "moments"

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Say what the triple is."""
        return (Plane(np.dtype(np.int64), 0), DOUBLE, DOUBLE)

    @property
    def columns(self) -> tuple[str, ...]:
        """Tell the triple."""
        return (": values", ": mean", ": sum of squared distances from the mean")

    def lift(self, value: Written, time: str) -> list[str]:
        """Let Spark compute the mean and the variance."""
        assert self.argument is not None
        x = f"cast({value(self.argument)} as double)"
        return [f"count({x})", f"avg({x})", f"var_pop({x}) * count({x})"]

    def row_texts(self, value: Written, time: str) -> list[str]:
        """Write the value as a double."""
        assert self.argument is not None
        return [f"cast({value(self.argument)} as double)"]

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Compute the mean, then the distances from it."""
        count, mean, distances = centred(columns[0], runs)
        held = runs.held(columns[0])
        with np.errstate(all="ignore"):
            squares = runs.add_up(distances * distances)
        return [pa.array(count), masked(mean, held), masked(squares, held)]

    def read(self, columns: Sequence[Column]) -> Values:
        """Read count, avg and m2."""
        return (integers(columns[0]), doubles(columns[1]), doubles(columns[2]))

    def combine(self, a: Planes, b: Planes) -> Planes:
        """Merge counts, means and squared distances (Chan, Golub and LeVeque 1979)."""
        n = a[0] + b[0]
        with np.errstate(all="ignore"):
            delta = b[1] - a[1]
            share = b[0] / np.maximum(n, 1)
            mean = a[1] + delta * share
            m2 = a[2] + b[2] + delta * delta * (a[0] * share)
        if not np.isfinite(m2).all():  # an empty side must not touch the other: 0 · inf² would be NaN
            for empty, other in ((a[0] == 0, b), (b[0] == 0, a)):
                mean, m2 = np.where(empty, other[1], mean), np.where(empty, other[2], m2)
        return (n, mean, m2)

    @property
    def merges_stretches(self) -> bool:
        """Tell that a run is merged in a few steps, however long it is."""
        return True

    def reduce(self, planes: Planes, starts: Int64Array) -> Planes:
        """Merge each run of triples at once, as Chan, Golub and LeVeque merge two (1979).

        Means are taken as distances from one of the run, so that equal ones stay what they are.
        """
        n, mean, m2 = planes
        if len(starts) == len(n):
            return planes
        owner = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(n)))
        total, held = np.add.reduceat(n, starts), n > 0
        with np.errstate(all="ignore"):
            one = np.where(total > 0, np.maximum.reduceat(np.where(held, mean, -np.inf), starts), 0.0)
            apart = mean - one[owner]
            share = n / np.maximum(total, 1)[owner]
            shift = np.add.reduceat(np.where(held, apart * share, 0.0), starts)
            apart = np.where(held, apart - shift[owner], 0.0)
            spread = np.add.reduceat(m2 + n * apart * apart, starts)
        return (total, one + shift, spread)


class PairMoments(Component):
    """Six numbers of pairs (y, x): n, both means, both sums of squared distances, the sum of products of distances.

    Pairs in which a value is NULL do not count. Of equal values the mean is the value itself, as in four moments: what
    is divided by a variance must know which one is 0.
    """

    __slots__ = ()
    kind: ClassVar = "moments2"

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Say what the six numbers are."""
        return (Plane(np.dtype(np.int64), 0), *(DOUBLE,) * 5)

    @property
    def columns(self) -> tuple[str, ...]:
        """Tell the six numbers."""
        squares = (f": sum of squared distances of {one}" for one in ("the first", "the second"))
        return (": pairs", ": mean of the first", ": mean of the second", *squares, ": sum of products of distances")

    def lift(self, value: Written, time: str) -> list[str]:
        """Let Spark compute means, variances and the covariance."""
        y, x = self.row_texts(value, time)
        means = [f"CASE WHEN var_pop({one}) = 0 THEN min({one}) ELSE avg({one}) END" for one in (y, x)]
        squares = [f"{one} * count({y})" for one in (f"var_pop({y})", f"var_pop({x})", f"covar_pop({y}, {x})")]
        return [f"count({y})", *means, *squares]

    def row_texts(self, value: Written, time: str) -> list[str]:
        """Write both values as doubles, NULL where one of them is."""
        assert self.argument is not None
        both = value(self.argument), value(self.more[0])
        whole = " AND ".join(f"({one}) IS NOT NULL" for one in both)
        return [f"CASE WHEN {whole} THEN cast({one} as double) END" for one in both]

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Compute both means, then the distances from them."""
        (count, y, from_y), (_, x, from_x) = (centred(column, runs, exact=True) for column in columns)
        held = runs.held(columns[0])
        with np.errstate(all="ignore"):
            products = [runs.add_up(a * b) for a, b in ((from_y, from_y), (from_x, from_x), (from_y, from_x))]
        return [pa.array(count), *(masked(one, held) for one in (y, x, *products))]

    def read(self, columns: Sequence[Column]) -> Values:
        """Read the count and the doubles."""
        return (integers(columns[0]), *(doubles(column) for column in columns[1:]))

    def combine(self, a: Planes, b: Planes) -> Planes:
        """Merge counts, means and sums (Chan, Golub and LeVeque 1979; products in the same way)."""
        n = a[0] + b[0]
        with np.errstate(all="ignore"):
            y, x, share = b[1] - a[1], b[2] - a[2], b[0] / np.maximum(n, 1)
            weight = a[0] * share
            means = (a[1] + y * share, a[2] + x * share)
            sums = (a[3] + b[3] + y * y * weight, a[4] + b[4] + x * x * weight, a[5] + b[5] + y * x * weight)
        merged: Planes = (*means, *sums)
        # An empty side must not touch the other: 0 · inf² would be NaN.
        for empty, other in ((a[0] == 0, b), (b[0] == 0, a)):
            merged = tuple(np.where(empty, own, plane) for own, plane in zip(other[1:], merged, strict=True))
        return (n, *merged)
