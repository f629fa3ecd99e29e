"""Covariance, correlation and linear regression of pairs (y, x); a pair in which a value is NULL does not count.

Where Spark divides by a variance that is 0, the answer is NULL. ``regr_count``, ``regr_avgx`` and their like are
counts, averages and variances of one value of the pairs, and share what these store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Array, Component
from penstock.evaluate.components.moments import Moments, PairMoments
from penstock.evaluate.functions.bound import (
    AggregateFunction,
    BoundAggregate,
    Lowered,
    Types,
    ValuesOf,
    always,
    average_type,
    is_number,
)
from penstock.evaluate.functions.sums import AVG, COUNT
from penstock.model.arrays import BoolArray
from penstock.model.query import Aggregate


def _pairs(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep the moments of pairs."""
    return (PairMoments(aggregate.arguments[0], types[0], aggregate.arguments[1:], tuple(types[1:])),)


def _of_pairs(answer: Callable[..., tuple[Array, BoolArray]]) -> AggregateFunction:
    """Make a function of what is kept of pairs: its answers, and where they are NULL."""

    def lower(bound: BoundAggregate, values: ValuesOf) -> Lowered:
        """Answer a double."""
        with np.errstate(all="ignore"):
            found, null = answer(*map(np.asarray, values[bound.components[0]]))
        return Lowered(pa.array(found, mask=null), None)

    return AggregateFunction((is_number,), _pairs, always(pa.float64()), lower, of_nulls=pa.float64())


def _covar_pop(n: Array, y: Array, x: Array, yy: Array, xx: Array, yx: Array) -> tuple[Array, BoolArray]:
    """Answer the covariance of all there are."""
    return yx / n, n == 0


def _covar_samp(n: Array, y: Array, x: Array, yy: Array, xx: Array, yx: Array) -> tuple[Array, BoolArray]:
    """Answer the covariance of a sample; of one pair it is NULL."""
    return yx / (n - 1), n <= 1


def _corr(n: Array, y: Array, x: Array, yy: Array, xx: Array, yx: Array) -> tuple[Array, BoolArray]:
    """Answer Pearson's correlation; NULL where a value never changes."""
    spread = np.sqrt(yy * xx)
    return yx / spread, (n <= 1) | (spread == 0)


def _sxy(n: Array, y: Array, x: Array, yy: Array, xx: Array, yx: Array) -> tuple[Array, BoolArray]:
    """Answer the sum of products of distances from the means."""
    return yx, n == 0


def _slope(n: Array, y: Array, x: Array, yy: Array, xx: Array, yx: Array) -> tuple[Array, BoolArray]:
    """Answer the slope of the line through the pairs."""
    return yx / xx, (n == 0) | (xx == 0)


def _intercept(n: Array, y: Array, x: Array, yy: Array, xx: Array, yx: Array) -> tuple[Array, BoolArray]:
    """Answer where that line meets x = 0."""
    return y - yx / xx * x, (n == 0) | (xx == 0)


def _r2(n: Array, y: Array, x: Array, yy: Array, xx: Array, yx: Array) -> tuple[Array, BoolArray]:
    """Answer how much of y that line explains; all of it where y never changes."""
    correlation = yx / np.sqrt(yy * xx)
    return np.where(yy == 0, 1.0, correlation * correlation), (n == 0) | (xx == 0)


def _one_of(place: int) -> Callable[[Aggregate], str]:
    """Write one value of each pair, NULL where the other is."""

    def written(aggregate: Aggregate) -> str:
        """Write it."""
        other, value = aggregate.arguments[1 - place], aggregate.arguments[place]
        return f"CASE WHEN ({other}) IS NOT NULL THEN {value} END"

    return written


def _average(place: int) -> AggregateFunction:
    """Make the average of one value of the pairs, of the type that avg() gives."""
    written = _one_of(place)

    def components(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
        """Keep what an average needs."""
        return AVG.components(Aggregate("avg", (written(aggregate),)), [types[place]])

    def result(aggregate: Aggregate, types: Types) -> pa.DataType:
        """Return the type of the average."""
        return average_type(types[place])

    return AggregateFunction((is_number,), components, result, AVG.lower, of_nulls=pa.float64())


def _squares(place: int) -> AggregateFunction:
    """Make the sum of squared distances of one value of the pairs."""
    written = _one_of(place)

    def components(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
        """Keep the moments of the value."""
        return (Moments(written(aggregate), types[place]),)

    def lower(bound: BoundAggregate, values: ValuesOf) -> Lowered:
        """Answer the sum; NULL of nothing."""
        n, _, squares = map(np.asarray, values[bound.components[0]])
        return Lowered(pa.array(squares, mask=n == 0), None)

    return AggregateFunction((is_number,), components, always(pa.float64()), lower, of_nulls=pa.float64())


COVAR_POP: Final = _of_pairs(_covar_pop)
COVAR_SAMP: Final = _of_pairs(_covar_samp)
CORR: Final = _of_pairs(_corr)
REGR_SXY: Final = _of_pairs(_sxy)
REGR_SLOPE: Final = _of_pairs(_slope)
REGR_INTERCEPT: Final = _of_pairs(_intercept)
REGR_R2: Final = _of_pairs(_r2)
REGR_COUNT: Final = AggregateFunction((is_number,), COUNT.components, COUNT.result, COUNT.lower, of_nulls=pa.float64())
REGR_AVGY: Final = _average(0)
REGR_AVGX: Final = _average(1)
REGR_SYY: Final = _squares(0)
REGR_SXX: Final = _squares(1)
