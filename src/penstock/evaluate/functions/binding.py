"""Binds an aggregate call to the components it stores, its result type and how its answer is computed.

Result types, NULLs and rounding are Spark 4's. A sum that its type cannot hold is not an answer: it is marked failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.errors import WrongType
from penstock.evaluate.components.limbs import decimals_of, float64_of, int64_of
from penstock.evaluate.components.numbers import ROWS, Array, Component, Int64Array, Values
from penstock.evaluate.expressions.ddl import type_name
from penstock.evaluate.functions.bound import BoundAggregate, Lowered, ValuesOf, is_number, is_ordered, sum_type
from penstock.evaluate.functions.holistic import bind_holistic
from penstock.model.function import Function
from penstock.model.query import Aggregate

__all__ = ["BoundAggregate", "Lowered", "ValuesOf", "bind_aggregate"]

SYNONYMS: Final = {"mean": "avg", "variance": "var_samp", "std": "stddev_samp", "stddev": "stddev_samp"}
SPREADS: Final = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")


def bind_aggregate(
    aggregate: Aggregate, types: Sequence[pa.DataType], own: Mapping[str, Function] | None = None
) -> BoundAggregate:
    """Find the components, result type and lowering of a call whose arguments have the given types.

    ``own`` are the users' aggregates, by the names of their very code.
    """
    function = SYNONYMS.get(aggregate.function, aggregate.function)
    if aggregate.distinct or function not in ("count", "sum", "avg", "min", "max", *SPREADS):
        return bind_holistic(aggregate, types, own)
    if function == "count":
        return _bind_count(aggregate)
    if len(types) != 1 or len(aggregate.arguments) != 1:
        raise WrongType(f'"{aggregate.function}" takes one argument', detail=f"it was given {len(types)}")
    (type_,) = types
    if pa.types.is_null(type_) and function not in ("min", "max"):
        type_ = pa.float64()  # Spark's sum(NULL) is a double
    if not (is_ordered(type_) if function in ("min", "max") else is_number(type_)):
        raise WrongType(
            f'"{aggregate.function}" does not take an argument of type {type_name(type_)}',
            detail=f"in {aggregate}",
        )
    if function == "sum":
        return _bind_sum(aggregate, type_)
    if function == "avg":
        return _bind_avg(aggregate, type_)
    if function in ("min", "max"):
        component = Component("min" if function == "min" else "max", aggregate.arguments[0], type_)
        return BoundAggregate(aggregate, (component,), type_, _lower_extreme)
    component = Component("moments", aggregate.arguments[0], type_)
    return BoundAggregate(aggregate, (component,), pa.float64(), _lower_spread)


def _bind_count(aggregate: Aggregate) -> BoundAggregate:
    """Bind count(*) to rows, and count(a, b) to rows where no argument is NULL."""
    present = " AND ".join(f"({a}) IS NOT NULL" for a in aggregate.arguments)
    counted = aggregate.arguments[0] if len(aggregate.arguments) == 1 else f"CASE WHEN {present} THEN 1 END"
    component = Component("count", counted, None) if aggregate.arguments else ROWS
    return BoundAggregate(aggregate, (component,), pa.int64(), _lower_count)


def _bind_sum(aggregate: Aggregate, type_: pa.DataType) -> BoundAggregate:
    """Bind a sum: the sum itself, and whether it has a value, as the sum of none is NULL."""
    some = Component("some", aggregate.arguments[0], type_)
    components = (some, some.source)
    if pa.types.is_floating(type_):
        return BoundAggregate(aggregate, components, pa.float64(), _lower_float_sum)
    if pa.types.is_decimal(type_):
        return BoundAggregate(aggregate, components, sum_type(type_), _lower_decimal_sum)
    return BoundAggregate(aggregate, components, pa.int64(), _lower_integer_sum)


def _bind_avg(aggregate: Aggregate, type_: pa.DataType) -> BoundAggregate:
    """Bind an average, made of the count and the sum; it keeps what a sum needs too, for one that comes later."""
    some = Component("some", aggregate.arguments[0], type_)
    components = (Component("count", aggregate.arguments[0], None), some.source, some)
    if not pa.types.is_decimal(type_):
        return BoundAggregate(aggregate, components, pa.float64(), _lower_float_avg)
    result = pa.decimal128(min(38, type_.precision + 4), min(38, type_.scale + 4))
    return BoundAggregate(aggregate, components, result, _lower_decimal_avg)


def _lower_count(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer a count; it is never NULL."""
    return Lowered(pa.array(_counts(bound, values)), None)


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
    if bound.components[1].kind == "exact":
        sums = float64_of(sums)
    with np.errstate(all="ignore"):
        return Lowered(pa.array(sums / np.maximum(counts, 1), mask=counts == 0), None)


def _lower_decimal_avg(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the average of decimals, rounded half up; it fails where the sum or the average does not fit.

    Spark cuts the quotient off after 39 places before it rounds to at most 38: the same as rounding the exact one.
    """
    counts, limbs = _counts(bound, values), _plane(values[bound.components[1]])
    null, argument = counts == 0, bound.components[1].decimal
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


def _lower_extreme(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the least or greatest value in its own type."""
    pair = values[bound.components[0]]
    best, valid = np.asarray(pair[0]), np.asarray(pair[1])
    if pa.types.is_string(bound.type):  # Spark does not check that strings are UTF-8, and neither do we
        return Lowered(pa.array(best, pa.binary(), mask=~valid).view(pa.string()), None)
    if best.dtype.hasobject:
        return Lowered(pa.array(best, bound.type, mask=~valid), None)
    best = np.where(valid, best, best.dtype.type(0))
    if pa.types.is_boolean(bound.type):
        return Lowered(pa.array(best.astype(bool), mask=~valid), None)
    if pa.types.is_date32(bound.type):
        best = best.astype(np.int32)
    return Lowered(pa.array(best, mask=~valid).cast(bound.type), None)


def _lower_spread(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer a variance or standard deviation; of one value the sample forms are NULL."""
    function = SYNONYMS.get(bound.aggregate.function, bound.aggregate.function)
    moments = values[bound.components[0]]
    degrees = np.asarray(moments[0]) - (1 if function.endswith("_samp") else 0)
    with np.errstate(all="ignore"):
        spread = np.asarray(moments[2]) / np.maximum(degrees, 1)
        answers = np.sqrt(spread) if function.startswith("stddev") else spread
    return Lowered(pa.array(answers, mask=degrees <= 0), None)


def _counts(bound: BoundAggregate, values: ValuesOf) -> Int64Array:
    """Return how many values (or partials with values) each answer is made of."""
    return np.asarray(values[bound.components[0]], np.int64)


def _plane(values: Values) -> Array:
    """Return values that are a single array."""
    return np.asarray(values)
