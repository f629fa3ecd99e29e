"""count, sum and avg: exact for integers and decimals; a sum that its type cannot hold is no answer, it failed."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Component
from penstock.evaluate.components.limbs import decimals_of, float64_of, int64_of
from penstock.evaluate.components.numbers import ROWS, Array, Count, ExactSum, SumPresence, Values
from penstock.evaluate.functions import lower_frequencies
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
    is_ordered,
    sum_type,
)
from penstock.evaluate.functions.tabled import frequencies
from penstock.model.arrays import Int64Array
from penstock.model.query import Aggregate


def _counted(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Count rows for count(*), and rows where no argument is NULL for count(a, b)."""
    present = " AND ".join(f"({a}) IS NOT NULL" for a in aggregate.arguments)
    counted = aggregate.arguments[0] if len(aggregate.arguments) == 1 else f"CASE WHEN {present} THEN 1 END"
    return (Count(counted, None) if aggregate.arguments else ROWS,)


def _summed(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep the sum itself, and whether it has a value, as the sum of none is NULL."""
    some = SumPresence(aggregate.arguments[0], types[0])
    return (some, some.source)


def _averaged(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep the count and the sum, and what a sum needs too, for one that comes later."""
    some = SumPresence(aggregate.arguments[0], types[0])
    return (Count(aggregate.arguments[0], None), some.source, some)


def _lower_count(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer a count; it is never NULL."""
    return Lowered(pa.array(_counts(bound, values)), None)


def _lower_sum(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer a sum in its type."""
    if pa.types.is_decimal(bound.type):
        return _lower_decimal_sum(bound, values)
    return (_lower_float_sum if pa.types.is_floating(bound.type) else _lower_integer_sum)(bound, values)


def _lower_avg(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer an average in its type."""
    return (_lower_decimal_avg if pa.types.is_decimal(bound.type) else _lower_float_avg)(bound, values)


def _lower_integer_sum(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the sum of integers; beyond bigint it failed."""
    numbers, failed = int64_of(_plane(values[bound.components[1]]))
    null = _counts(bound, values) == 0
    failed &= ~null
    return Lowered(pa.array(numbers, mask=null | failed), failed if failed.any() else None)


def _lower_decimal_sum(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the sum of decimals; beyond the result's precision it failed."""
    null = _counts(bound, values) == 0
    array, failed = decimals_of(_plane(values[bound.components[1]]), bound.type, null)
    return Lowered(array, failed if failed.any() else None)


def _lower_float_sum(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the sum of doubles."""
    return Lowered(pa.array(_plane(values[bound.components[1]]), mask=_counts(bound, values) == 0), None)


def _lower_float_avg(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the average of integers or doubles."""
    counts, sums = _counts(bound, values), _plane(values[bound.components[1]])
    if isinstance(bound.components[1], ExactSum):
        sums = float64_of(sums)
    with np.errstate(all="ignore"):
        return Lowered(pa.array(sums / np.maximum(counts, 1), mask=counts == 0), None)


def _lower_decimal_avg(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the average of decimals, rounded half up; it fails where the sum or the average does not fit.

    Spark cuts the quotient off after 39 places before it rounds to at most 38: the same as rounding the exact one.
    """
    summed = bound.components[1]
    assert isinstance(summed, ExactSum)
    counts, limbs = _counts(bound, values), _plane(values[summed])
    null, argument = counts == 0, summed.decimal
    _, failed = decimals_of(limbs, sum_type(argument), null)
    factor = 10 ** (bound.type.scale - argument.scale)
    short, too_long = int64_of(limbs)
    most = 2**61 // factor
    if bool((null | (~too_long & (-most < short) & (short < most))).all()):
        quotients = _divide_half_up(short * factor, np.maximum(counts, 1))
        averages = np.pad(quotients[:, None], ((0, 0), (0, 3)))
    else:
        averages = _divide_long(limbs, factor, np.maximum(counts, 1))
    array, overflow = decimals_of(averages, bound.type, null | failed)
    failed |= overflow
    return Lowered(array, failed if failed.any() else None)


def _divide_half_up(numbers: Int64Array, by: Int64Array) -> Int64Array:
    """Divide and round to the nearest integer, halves away from zero."""
    return np.asarray(np.sign(numbers) * ((2 * np.abs(numbers) + by) // (2 * by)), np.int64)


def _divide_long(limbs: Int64Array, factor: int, counts: Int64Array) -> Int64Array:
    """Multiply by a factor and divide numbers of any length one by one, rounding halves away from zero."""
    quotients = np.empty_like(limbs)
    for i, (parts, count) in enumerate(zip(limbs.tolist(), counts.tolist(), strict=True)):
        total = sum(limb << (32 * place) for place, limb in enumerate(parts))
        size, sign = (2 * abs(total) * factor + count) // (2 * count), -1 if total < 0 else 1
        low = (sign * ((size >> (32 * place)) & 0xFFFFFFFF) for place in range(3))
        quotients[i] = [*low, sign * min(size >> 96, 2**62)]  # what is cut here is far beyond any decimal
    return quotients


def _counts(bound: BoundAggregate, values: ValuesOf) -> Int64Array:
    """Return how many values (or partials with values) each answer is made of."""
    return np.asarray(values[bound.components[0]], np.int64)


def _plane(values: Values) -> Array:
    """Return values that are a single array."""
    return np.asarray(values)


COUNT: Final = AggregateFunction(
    (is_any,),
    _counted,
    always(pa.int64()),
    _lower_count,
    distinct=AggregateFunction((is_ordered,), frequencies, always(pa.int64()), lower_frequencies.count_distinct),
)
SUM: Final = AggregateFunction(
    (is_number,),
    _summed,
    lambda aggregate, types: sum_type(types[0]),
    _lower_sum,
    of_nulls=pa.float64(),  # Spark's sum(NULL) is a double
    distinct=AggregateFunction(
        (is_number,), frequencies, lambda aggregate, types: sum_type(types[0]), lower_frequencies.sum_distinct
    ),
)
AVG: Final = AggregateFunction(
    (is_number,),
    _averaged,
    lambda aggregate, types: average_type(types[0]),
    _lower_avg,
    of_nulls=pa.float64(),
    distinct=AggregateFunction(
        (is_number,), frequencies, lambda aggregate, types: average_type(types[0]), lower_frequencies.avg_distinct
    ),
)
