"""Binds calls of holistic, approximate and users' aggregates to their components.

Exact aggregates over one expression share its frequency table; approximate ones of one size share its sketch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from penstock.errors import Unsupported, WrongType
from penstock.evaluate.components.component import Component, Kind
from penstock.evaluate.components.sketches import LG_K, LG_NOMINAL, TRACKED, K, k_for, lg_k_for
from penstock.evaluate.expressions.ddl import arrow_type, type_name
from penstock.evaluate.functions import lower_frequencies, lower_states
from penstock.evaluate.functions.bound import BoundAggregate, is_comparable, is_number, is_ordered, sum_type
from penstock.model.function import Function
from penstock.model.query import Aggregate

Types = Sequence[pa.DataType]
WEIGHT_DIGITS: Final = 28  # of a decimal weight; the sum of wider ones might not fit where it is made
TOP_ITEMS: Final = 5  # of approx_top_k, as Spark's


def bind_holistic(aggregate: Aggregate, types: Types, own: Mapping[str, Function] | None) -> BoundAggregate:
    """Find the component, result type and lowering of a call."""
    if own is not None and aggregate.function in own:
        return _own(aggregate, types, own[aggregate.function])
    binding = _DISTINCT.get(aggregate.function) if aggregate.distinct else _BINDINGS.get(aggregate.function)
    if binding is None:
        raise Unsupported(f'aggregate "{aggregate.function}" is not supported')
    return binding(aggregate, types)


def element(type_: pa.DataType) -> pa.DataType:
    """Return the type of an array, as Spark names its parts."""
    return pa.list_(pa.field("element", type_))


def items_of(type_: pa.DataType, name: str, weight: pa.DataType) -> pa.DataType:
    """Return the type of a list of items, each with its count or weight."""
    return element(pa.struct([pa.field("item", type_), pa.field(name, weight)]))


def _check(aggregate: Aggregate, type_: pa.DataType, fits: Callable[[pa.DataType], bool]) -> pa.DataType:
    """Refuse an argument of a type that an aggregate has no meaning for."""
    if not fits(type_):
        what = f'"{aggregate.function}" does not take an argument of type {type_name(type_)}'
        raise WrongType(what, detail=f"in {aggregate}")
    return type_


# -- exact --------------------------------------------------------------------------------------------------------


def _frequencies(aggregate: Aggregate, types: Types) -> Component:
    """Return the frequency table of an argument, or of several together."""
    return Component("frequencies", aggregate.arguments[0], types[0], aggregate.arguments[1:], tuple(types[1:]))


def _count_distinct(aggregate: Aggregate, types: Types) -> BoundAggregate:
    """Bind count(DISTINCT x, …)."""
    for type_ in types:
        _check(aggregate, type_, is_ordered)
    component = _frequencies(aggregate, types)
    return BoundAggregate(aggregate, (component,), pa.int64(), lower_frequencies.count_distinct)


def _sum_distinct(aggregate: Aggregate, types: Types) -> BoundAggregate:
    """Bind sum(DISTINCT x)."""
    _check(aggregate, types[0], is_number)
    component = _frequencies(aggregate, types)
    return BoundAggregate(aggregate, (component,), sum_type(types[0]), lower_frequencies.sum_distinct)


def _avg_distinct(aggregate: Aggregate, types: Types) -> BoundAggregate:
    """Bind avg(DISTINCT x)."""
    type_ = _check(aggregate, types[0], is_number)
    result = pa.float64()
    if pa.types.is_decimal(type_):
        result = pa.decimal128(min(38, type_.precision + 4), min(38, type_.scale + 4))
    return BoundAggregate(aggregate, (_frequencies(aggregate, types),), result, lower_frequencies.avg_distinct)


def _percentile(aggregate: Aggregate, types: Types) -> BoundAggregate:
    """Bind median(x) and percentile(x, p [, frequency])."""
    _check(aggregate, types[0], is_number)
    if len(types) > 1:
        _check(aggregate, types[1], pa.types.is_signed_integer)
        component = _weights(aggregate, types)
    else:
        component = _frequencies(aggregate, types)
    several = bool(aggregate.parameters) and isinstance(aggregate.parameters[0], tuple)
    result = element(pa.float64()) if several else pa.float64()
    return BoundAggregate(aggregate, (component,), result, lower_frequencies.percentile)


def _mode(aggregate: Aggregate, types: Types) -> BoundAggregate:
    """Bind mode(x)."""
    _check(aggregate, types[0], is_ordered)
    return BoundAggregate(aggregate, (_frequencies(aggregate, types),), types[0], lower_frequencies.mode)


def _top(aggregate: Aggregate, types: Types) -> BoundAggregate:
    """Bind top(k, x) and top(k, x, weight)."""
    _check(aggregate, types[0], is_ordered)
    if len(types) == 1:
        result = items_of(types[0], "count", pa.int64())
        return BoundAggregate(aggregate, (_frequencies(aggregate, types),), result, lower_frequencies.top)
    _check(aggregate, types[1], is_number)
    result = items_of(types[0], "weight", sum_type(types[1]))
    return BoundAggregate(aggregate, (_weights(aggregate, types),), result, lower_frequencies.top)


def _weights(aggregate: Aggregate, types: Types) -> Component:
    """Return the table of weights of an argument."""
    if pa.types.is_decimal(types[1]) and types[1].precision > WEIGHT_DIGITS:
        what = f'"{aggregate.function}" does not take weights of more than {WEIGHT_DIGITS} digits'
        raise WrongType(what, detail=f"in {aggregate}", hint="Cast them to a narrower decimal.")
    return Component("weights", aggregate.arguments[0], types[0], aggregate.arguments[1:], tuple(types[1:]))


def _picked(aggregate: Aggregate, types: Types) -> BoundAggregate:
    """Bind arg_min(x, y) and arg_max(x, y)."""
    _check(aggregate, types[0], lambda t: is_comparable(t) and not pa.types.is_null(t))
    _check(aggregate, types[1], is_ordered)
    kind: Kind = "arg_min" if aggregate.function == "arg_min" else "arg_max"
    component = Component(kind, aggregate.arguments[0], types[0], aggregate.arguments[1:], tuple(types[1:]))
    return BoundAggregate(aggregate, (component,), types[0], lower_states.picked)


def _ordered(aggregate: Aggregate, types: Types) -> BoundAggregate:
    """Bind first and last; the second argument tells which rows are taken."""
    _check(aggregate, types[0], lambda t: is_comparable(t) and not pa.types.is_null(t))
    kind: Kind = "first" if aggregate.function == "first" else "last"
    if len(types) > 1:
        _check(aggregate, types[1], lambda t: pa.types.is_boolean(t) or pa.types.is_null(t))
    keep = aggregate.arguments[1] if len(types) > 1 else None
    ignored = int(bool(aggregate.parameters[0]))
    component = Component(kind, aggregate.arguments[0], types[0], aggregate.row, keep=keep, size=ignored)
    return BoundAggregate(aggregate, (component,), types[0], lower_states.picked)


# -- approximate --------------------------------------------------------------------------------------------------


def _parameter(aggregate: Aggregate, place: int, otherwise: int) -> int:
    """Return a whole number among the constants, or what stands for it."""
    found = aggregate.parameters[place] if len(aggregate.parameters) > place else otherwise
    assert not isinstance(found, tuple)
    return int(found)


def _approx_count_distinct(aggregate: Aggregate, types: Types) -> BoundAggregate:
    """Bind approx_count_distinct(x [, relative deviation])."""
    _check(aggregate, types[0], is_ordered)
    size = lg_k_for(float(aggregate.parameters[0])) if aggregate.parameters else LG_K  # type: ignore[arg-type]
    component = Component("hll", aggregate.arguments[0], types[0], size=size)
    return BoundAggregate(aggregate, (component,), pa.int64(), lower_states.approx_count_distinct)


def _approx_percentile(aggregate: Aggregate, types: Types) -> BoundAggregate:
    """Bind approx_percentile(x, p [, accuracy])."""
    _check(aggregate, types[0], is_number)
    size = k_for(_parameter(aggregate, 1, 0)) if len(aggregate.parameters) > 1 else K
    component = Component("kll", aggregate.arguments[0], types[0], size=size)
    result = element(types[0]) if isinstance(aggregate.parameters[0], tuple) else types[0]
    return BoundAggregate(aggregate, (component,), result, lower_states.approx_percentile)


def _approx_top_k(aggregate: Aggregate, types: Types) -> BoundAggregate:
    """Bind approx_top_k(x [, k [, tracked]])."""
    _check(aggregate, types[0], is_ordered)
    k, tracked = _parameter(aggregate, 0, TOP_ITEMS), _parameter(aggregate, 1, TRACKED)
    if k > tracked:
        raise WrongType(f"approx_top_k() cannot list {k:,} items and track {tracked:,}", detail=f"in {aggregate}")
    tests = (pa.types.is_string, pa.types.is_binary, pa.types.is_floating, pa.types.is_decimal)
    written = any(test(types[0]) for test in tests)
    kept = pa.string() if written else pa.int64()
    component = Component("items", aggregate.arguments[0], kept, types=(types[0],), size=tracked)
    return BoundAggregate(aggregate, (component,), items_of(types[0], "count", pa.int64()), lower_states.approx_top_k)


def _sketch(kind: Kind, otherwise: int, fits: Callable[[pa.DataType], bool]) -> Callable[..., BoundAggregate]:
    """Make the binding of an aggregate that gives the sketch itself."""

    def binding(aggregate: Aggregate, types: Types) -> BoundAggregate:
        """Bind a sketch."""
        _check(aggregate, types[0], fits)
        component = Component(kind, aggregate.arguments[0], types[0], size=_parameter(aggregate, 0, otherwise))
        return BoundAggregate(aggregate, (component,), pa.binary(), lower_states.sketch)

    return binding


def _is_sketched(type_: pa.DataType) -> bool:
    """Tell whether Spark's Theta sketches take values of a type."""
    tests = (pa.types.is_signed_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_binary)
    return any(test(type_) for test in tests)


# -- users' own ---------------------------------------------------------------------------------------------------


def _own(aggregate: Aggregate, types: Types, function: Function) -> BoundAggregate:
    """Bind a user's aggregate."""
    component = Component(
        "user", aggregate.arguments[0], types[0], aggregate.arguments[1:], tuple(types[1:]), code=function
    )
    assert function.returns is not None
    return BoundAggregate(aggregate, (component,), arrow_type(function.returns), lower_states.own)


_DISTINCT: Final[Mapping[str, Callable[[Aggregate, Types], BoundAggregate]]] = {
    "count": _count_distinct,
    "sum": _sum_distinct,
    "avg": _avg_distinct,
}
_BINDINGS: Final[Mapping[str, Callable[[Aggregate, Types], BoundAggregate]]] = {
    "median": _percentile,
    "percentile": _percentile,
    "mode": _mode,
    "top": _top,
    "arg_min": _picked,
    "arg_max": _picked,
    "first": _ordered,
    "last": _ordered,
    "approx_count_distinct": _approx_count_distinct,
    "approx_percentile": _approx_percentile,
    "approx_top_k": _approx_top_k,
    "hll_sketch_agg": _sketch("hll", LG_K, lambda t: _is_sketched(t) and not pa.types.is_floating(t)),
    "theta_sketch_agg": _sketch("theta", LG_NOMINAL, _is_sketched),
    "kll_sketch_agg_double": _sketch("kll", K, is_number),
}
