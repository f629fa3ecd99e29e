"""Lists what count, count_if, sum and avg of a sample mean, their bounds, and the share of the rows that was kept.

Queries that shed load have these in place of the plain ones (:mod:`penstock.language.binding.sampling`); nobody can
call them by name. The weight of a row is their last argument.

A bound is 1.96 times the estimated standard error: 95 of 100 answers are off by at most so much where there are some
hundred kept rows or more. Nothing is known of the error of a count or sum of which no row was kept: its bound is NULL.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import Unsupported
from penstock.evaluate.components.component import Component
from penstock.evaluate.components.limbs import float64_of
from penstock.evaluate.components.numbers import ROWS, ExactSum
from penstock.evaluate.components.weighted import EXCESS, LONGEST_DECIMAL, ExcessMoment, RowWeights, weighted_sum
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
from penstock.evaluate.functions.sums import AVG, COUNT, SUM
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.query import Aggregate

Floats = npt.NDArray[np.float64]

NORMAL_95: Final = 1.96  # standard errors that 95 of 100 estimates are off by at most
ROUNDING: Final = 1e-12  # of sums of doubles, relative to the sum of what was added: many times what rounding makes


def _weights(aggregate: Aggregate, size: int = 0) -> Component:
    """Return the weights of the rows that a call counts."""
    *counted, weight = aggregate.arguments
    if aggregate.function.endswith("count_if"):
        return RowWeights(None, None, (weight,), keep=counted[0], size=size)
    return RowWeights(counted[0] if counted else None, None, (weight,), size=size)


def _whole(aggregate: Aggregate) -> tuple[Component, ...]:
    """Return what tells whether all rows were kept: how many there are, and what they stand for."""
    return (ROWS, RowWeights(None, None, aggregate.arguments[-1:]))


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
    return (_weights(aggregate), _weights(aggregate, EXCESS), *_whole(aggregate))


def _sum_bounded(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep what bounds a sum."""
    x, weight = aggregate.arguments
    return (_weights(aggregate), ExcessMoment(x, types[0], (weight,), size=2))


def _avg_bounded(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep what bounds an average: how counts and sums are off together."""
    x, weight = aggregate.arguments
    excess = tuple(ExcessMoment(x, types[0], (weight,), size=power) for power in (1, 2))
    return (*_summed(aggregate, types), _weights(aggregate, EXCESS), *excess)


def _lower_count_bound(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Bound a count; one of nothing is certain only where every row was kept."""
    counted, excess, rows, weights = (_integers(values, c) for c in bound.components)
    unknown = (counted == 0) & ((rows == 0) | (rows != weights))
    return _bounds(excess.astype(np.float64), unknown)


def _lower_sum_bound(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Bound a sum; of no value it is NULL, as the sum is."""
    return _bounds(_doubles(values, bound.components[1]), _integers(values, bound.components[0]) == 0)


def _lower_avg_bound(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Bound an average by how it changes with its sum and its count (linearised), and by how far sums are rounded."""
    counted = _integers(values, bound.components[0])
    total, zeroth, first, second = (_doubles(values, c) for c in bound.components[1:])
    with np.errstate(all="ignore"):
        number = np.maximum(counted, 1).astype(np.float64)
        mean = total / number
        variance = second - 2 * mean * first + mean * mean * zeroth
        added = second + 2 * np.abs(mean * first) + mean * mean * zeroth
        variance = np.where(zeroth == 0, 0.0, np.maximum(variance, 0.0) + ROUNDING * added)
        return _bounds(variance / (number * number), counted == 0)


def _lower_share(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer which share of the rows was kept; NULL where there was none."""
    rows, weights = (_integers(values, c) for c in bound.components)
    return Lowered(pa.array(rows / np.maximum(weights, 1), mask=weights == 0), None)


def _bounds(variance: Floats, unknown: BoolArray) -> Lowered:
    """Answer bounds."""
    with np.errstate(all="ignore"):
        return Lowered(pa.array(NORMAL_95 * np.sqrt(variance), mask=unknown), None)


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
_DOUBLE: Final = always(pa.float64())
_NULLS: Final = pa.float64()  # an argument that is always NULL is one of these, as in a plain sum

SAMPLED: Final[dict[str, AggregateFunction]] = {
    "sampled_count": AggregateFunction((is_any,), _counted, always(pa.int64()), COUNT.lower),
    "sampled_count_if": AggregateFunction(_TESTED, _counted, always(pa.int64()), COUNT.lower),
    "sampled_sum": AggregateFunction(_PARTS, _summed, lambda a, types: sum_type(types[0]), SUM.lower, _NULLS),
    "sampled_avg": AggregateFunction(_PARTS, _summed, lambda a, types: average_type(types[0]), AVG.lower, _NULLS),
    "bound_of_count": AggregateFunction((is_any,), _count_bounded, _DOUBLE, _lower_count_bound),
    "bound_of_count_if": AggregateFunction(_TESTED, _count_bounded, _DOUBLE, _lower_count_bound),
    "bound_of_sum": AggregateFunction(_PARTS, _sum_bounded, _DOUBLE, _lower_sum_bound, _NULLS),
    "bound_of_avg": AggregateFunction(_PARTS, _avg_bounded, _DOUBLE, _lower_avg_bound, _NULLS),
    "sampled_share": AggregateFunction((is_any,), lambda a, types: _whole(a), _DOUBLE, _lower_share),
}
