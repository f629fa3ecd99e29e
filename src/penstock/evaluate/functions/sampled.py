"""Lists what count, count_if, sum and avg of a sample mean, their bounds, and the share of the rows that was kept.

Queries that shed load have these in place of the plain ones (:mod:`penstock.language.binding.sampling`); nobody can
call them by name. The weight of a row is their last argument.

A bound is the estimated standard error times a quantile of Student's distribution, so that 95 of 100 answers are off
by at most so much. Its degrees of freedom are those of the estimated variance (Satterthwaite 1946), from the fourth
moment of what was kept: few rows, or some that outweigh all others, make it less sure. Nothing is known of the error of
a count or sum of which no row was kept, nor of an average of one row: its bound is NULL.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import Unsupported
from penstock.evaluate.components.component import Component
from penstock.evaluate.components.limbs import float64_of
from penstock.evaluate.components.numbers import ROWS, ExactSum
from penstock.evaluate.components.weighted import (
    EXCESS,
    LONGEST_DECIMAL,
    SQUARED,
    ExcessMoment,
    ExcessWeights,
    RowWeights,
    weighted_sum,
)
from penstock.evaluate.functions.bound import (
    AggregateFunction,
    BoundAggregate,
    Lowered,
    Types,
    ValuesOf,
    always,
    average_type,
    is_any,
    is_number,
    sum_type,
)
from penstock.evaluate.functions.student import student_95
from penstock.evaluate.functions.sums import AVG, COUNT, SUM
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.query import Aggregate

Floats = npt.NDArray[np.float64]

ROUNDING: Final = 1e-12  # of sums of doubles, relative to the sum of what was added: many times what rounding makes
LEAST_KNOWN: Final = 0.01  # of a moment may be rounding; beyond, it is not known
ENDLESS: Final = 1e18  # rows or degrees of freedom, where every row was kept
LEAST_KEPT: Final = 1.5  # rows of which something is known of the average's error


def _weights(aggregate: Aggregate) -> Component:
    """Return the weights of the rows that an estimate counts."""
    *counted, weight = aggregate.arguments
    if aggregate.function.endswith("count_if"):
        return RowWeights(None, None, (weight,), keep=counted[0])
    return RowWeights(counted[0] if counted else None, None, (weight,))


def _excess(aggregate: Aggregate, size: int) -> Component:
    """Return what the weights of rows that a bound counts say of the variance, or of how sure that is."""
    *counted, weight, twins = aggregate.arguments
    if aggregate.function.endswith("count_if"):
        return ExcessWeights(None, None, (weight, twins), keep=counted[0], size=size)
    return ExcessWeights(counted[0] if counted else None, None, (weight, twins), size=size)


def _estimate(aggregate: Aggregate) -> Aggregate:
    """Return the estimate that a bound is of."""
    return Aggregate(aggregate.function.replace("bound_of", "sampled"), aggregate.arguments[:-1])


def _whole(weight: str) -> tuple[Component, ...]:
    """Return what tells whether all rows were kept: how many there are, and what they stand for."""
    return (ROWS, RowWeights(None, None, (weight,)))


def _counted(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep the weights of what is counted."""
    return (_weights(aggregate),)


def _summed(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep the weights of the values, as the sum of none is NULL, and the sum."""
    x, weight = aggregate.arguments
    if pa.types.is_decimal(types[0]) and types[0].precision > LONGEST_DECIMAL:
        what = f"sums and averages of decimals with more than {LONGEST_DECIMAL} digits cannot be sampled"
        hint = f"Write cast({x} AS DECIMAL({LONGEST_DECIMAL}, {min(types[0].scale, LONGEST_DECIMAL)}))."
        raise Unsupported(what, detail=f"{x} has {types[0].precision} digits", hint=hint)
    return (_weights(aggregate), weighted_sum(x, types[0], weight))


def _count_bounded(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep what bounds a count."""
    excess = (_excess(aggregate, EXCESS), _excess(aggregate, SQUARED))
    return (_weights(_estimate(aggregate)), *excess, *_whole(aggregate.arguments[-2]))


def _sum_bounded(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep what bounds a sum."""
    excess = (_excess(aggregate, EXCESS), _excess(aggregate, SQUARED))
    return (_weights(_estimate(aggregate)), *excess, *_moments(aggregate, types, (2, 4)))


def _avg_bounded(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep what bounds an average: how counts and sums are off together."""
    excess = (_excess(aggregate, EXCESS), _excess(aggregate, SQUARED))
    return (*_summed(_estimate(aggregate), types), *excess, *_moments(aggregate, types, (1, 2, 3, 4)))


def _moments(aggregate: Aggregate, types: Types, powers: Sequence[int]) -> tuple[Component, ...]:
    """Return the moments of values by the excess of their weights."""
    x, *rest = aggregate.arguments
    return tuple(ExcessMoment(x, types[0], tuple(rest), size=power) for power in powers)


def _lower_count_bound(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Bound a count; one of nothing is certain only where every row was kept."""
    counted, rows, weights = (_integers(values, bound.components[place]) for place in (0, 3, 4))
    excess, squared = (_doubles(values, c) for c in bound.components[1:3])
    unknown = (counted == 0) & ((rows == 0) | (rows != weights))
    return _bounds(excess, _freedom(excess, squared), unknown)


def _lower_sum_bound(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Bound a sum; of no value it is NULL, as the sum is."""
    excess, squared, second, fourth = (_doubles(values, c) for c in bound.components[1:])
    return _bounds(
        second, _freedom(second, _ratio(squared, excess, 0.0) * fourth), _integers(values, bound.components[0]) == 0
    )


def _lower_avg_bound(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Bound an average by how it changes with its sum and its count (linearised), and by how far sums are rounded.

    The rows themselves pull the average towards them, which makes their distances from it too small: where n were kept,
    by the part (n - 1)/n of each (MacKinnon and White 1985).
    """
    counted = _integers(values, bound.components[0])
    total, excess, squared, *moments = (_doubles(values, c) for c in bound.components[1:])
    with np.errstate(all="ignore"):
        number = np.maximum(counted, 1).astype(np.float64)
        mean = total / number
        variance, added = _central(mean, (excess, *moments[:2]))
        variance = np.where(excess == 0, 0.0, np.maximum(variance, 0.0) + ROUNDING * added)
        kept = _ratio(excess * excess, squared)  # rows, of which those that agree are one
        freedom = _freedom(variance, _ratio(squared, excess, 0.0) * _fourth(mean, (excess, *moments)))
        freedom = np.minimum(freedom, np.maximum(kept - 1, 0.0))
        variance *= np.where(kept > 1, _ratio(kept, kept - 1), 1.0) ** 2
        unknown = (counted == 0) | ((excess > 0) & (kept < LEAST_KEPT))
        return _bounds(variance / (number * number), freedom, unknown)


def _central(mean: Floats, moments: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the moment around the mean of the highest power, and the sum of what was added and subtracted for it."""
    power, found, added = len(moments) - 1, np.zeros_like(mean), np.zeros_like(mean)
    for k, moment in enumerate(moments):
        term = math.comb(power, k) * (-mean) ** (power - k) * moment
        found, added = found + term, added + np.abs(term)
    return found, added


def _fourth(mean: Floats, moments: Sequence[Floats]) -> Floats:
    """Return the fourth moment around the mean; 0 where rounding leaves too little of it to be known."""
    found, added = _central(mean, moments)
    return np.where(found > ROUNDING / LEAST_KNOWN * added, found, 0.0)


def _freedom(variance: Floats, squares: Floats) -> Floats:
    """Return the degrees of freedom of an estimated variance, which is a sum with these squares."""
    return 2 * _ratio(variance * variance, squares)


def _ratio(above: Floats, below: Floats, otherwise: float = ENDLESS) -> Floats:
    """Divide where there is something to divide by."""
    with np.errstate(all="ignore"):
        return np.where(below > 0, above / np.where(below > 0, below, 1.0), otherwise)


def _lower_share(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer which share of the rows was kept; NULL where there was none."""
    rows, weights = (_integers(values, c) for c in bound.components)
    return Lowered(pa.array(rows / np.maximum(weights, 1), mask=weights == 0), None)


def _bounds(variance: Floats, freedom: Floats, unknown: BoolArray) -> Lowered:
    """Answer bounds; where every row was kept, they are 0."""
    with np.errstate(all="ignore"):
        bounds = np.where(variance > 0, student_95(freedom) * np.sqrt(variance), 0.0)
        return Lowered(pa.array(bounds, mask=unknown), None)


def _integers(values: ValuesOf, component: Component) -> Int64Array:
    """Return whole numbers."""
    return np.asarray(values[component], np.int64)


def _doubles(values: ValuesOf, component: Component) -> Floats:
    """Return numbers as doubles; those of decimals are whole ones of their smallest unit."""
    found = np.asarray(values[component])
    if not isinstance(component, ExactSum):
        return np.asarray(found, np.float64)
    scale = component.decimal.scale if component.limbs == 4 else 0
    return float64_of(found) / 10.0**scale


_PARTS: Final = (is_number, is_any)  # a value and its weight
_TESTED: Final = (pa.types.is_boolean, is_any)
_BOUNDED: Final = (*_PARTS, is_any)  # and how many rows agree with it
_DOUBLE: Final = always(pa.float64())
_NULLS: Final = pa.float64()  # an argument that is always NULL is one of these, as in a plain sum

SAMPLED: Final[dict[str, AggregateFunction]] = {
    "sampled_count": AggregateFunction((is_any,), _counted, always(pa.int64()), COUNT.lower),
    "sampled_count_if": AggregateFunction(_TESTED, _counted, always(pa.int64()), COUNT.lower),
    "sampled_sum": AggregateFunction(_PARTS, _summed, lambda a, types: sum_type(types[0]), SUM.lower, _NULLS),
    "sampled_avg": AggregateFunction(_PARTS, _summed, lambda a, types: average_type(types[0]), AVG.lower, _NULLS),
    "bound_of_count": AggregateFunction((is_any, is_any), _count_bounded, _DOUBLE, _lower_count_bound),
    "bound_of_count_if": AggregateFunction((*_TESTED, is_any), _count_bounded, _DOUBLE, _lower_count_bound),
    "bound_of_sum": AggregateFunction(_BOUNDED, _sum_bounded, _DOUBLE, _lower_sum_bound, _NULLS),
    "bound_of_avg": AggregateFunction(_BOUNDED, _avg_bounded, _DOUBLE, _lower_avg_bound, _NULLS),
    "sampled_share": AggregateFunction((is_any,), lambda a, types: _whole(a.arguments[0]), _DOUBLE, _lower_share),
}
