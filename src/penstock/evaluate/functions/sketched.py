"""Approximate aggregates, and the sketches themselves; those of one size over one expression share its sketch."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.errors import WrongType
from penstock.evaluate.components.component import Component
from penstock.evaluate.components.sketches import (
    LG_K,
    LG_NOMINAL,
    TRACKED,
    FrequentItems,
    HllSketch,
    K,
    KllSketch,
    Sketch,
    ThetaSketch,
    k_for,
    lg_k_for,
)
from penstock.evaluate.functions import lower_states
from penstock.evaluate.functions.bound import AggregateFunction, Types, TypeTest, always, is_number, is_ordered
from penstock.evaluate.functions.tabled import element, items_of
from penstock.model.query import Aggregate

TOP_ITEMS: Final = 5  # of approx_top_k, as Spark's


def _parameter(aggregate: Aggregate, place: int, otherwise: int) -> int:
    """Return a whole number among the constants, or what stands for it."""
    found = aggregate.parameters[place] if len(aggregate.parameters) > place else otherwise
    assert not isinstance(found, tuple)
    return int(found)


def _distinct(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep a HyperLogLog of the relative deviation asked for."""
    size = lg_k_for(float(aggregate.parameters[0])) if aggregate.parameters else LG_K  # type: ignore[arg-type]
    return (HllSketch(aggregate.arguments[0], types[0], size=size),)


def _quantiles(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep a KLL sketch of the accuracy asked for."""
    size = k_for(_parameter(aggregate, 1, 0)) if len(aggregate.parameters) > 1 else K
    return (KllSketch(aggregate.arguments[0], types[0], size=size),)


def _percentages(aggregate: Aggregate, types: Types) -> pa.DataType:
    """Return the argument's type, or an array of it for several percentages."""
    return element(types[0]) if isinstance(aggregate.parameters[0], tuple) else types[0]


def _items(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep a sketch of frequent items, which are longs or strings."""
    k, tracked = _parameter(aggregate, 0, TOP_ITEMS), _parameter(aggregate, 1, TRACKED)
    if k > tracked:
        what = f"approx_top_k() cannot list {k:,} items and track {tracked:,}"
        raise WrongType(what, detail=f"in {aggregate}", about=str(aggregate))
    tests = (pa.types.is_string, pa.types.is_binary, pa.types.is_floating, pa.types.is_decimal)
    kept = pa.string() if any(test(types[0]) for test in tests) else pa.int64()
    return (FrequentItems(aggregate.arguments[0], kept, types=(types[0],), size=tracked),)


def _sketch(kind: type[Sketch], otherwise: int, fits: TypeTest) -> AggregateFunction:
    """Make a function that gives the sketch itself."""

    def components(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
        """Keep the sketch."""
        return (kind(aggregate.arguments[0], types[0], size=_parameter(aggregate, 0, otherwise)),)

    return AggregateFunction((fits,), components, always(pa.binary()), lower_states.sketch)


def _is_hashed(type_: pa.DataType) -> bool:
    """Tell whether Spark's HyperLogLog sketches take values of a type."""
    tests = (pa.types.is_signed_integer, pa.types.is_string, pa.types.is_binary)
    return any(test(type_) for test in tests)


def _is_sketched(type_: pa.DataType) -> bool:
    """Tell whether Spark's Theta sketches take values of a type."""
    return _is_hashed(type_) or bool(pa.types.is_floating(type_))


APPROX_COUNT_DISTINCT: Final = AggregateFunction(
    (is_ordered,), _distinct, always(pa.int64()), lower_states.approx_count_distinct
)
APPROX_PERCENTILE: Final = AggregateFunction((is_number,), _quantiles, _percentages, lower_states.approx_percentile)
APPROX_TOP_K: Final = AggregateFunction(
    (is_ordered,), _items, lambda aggregate, types: items_of(types[0], "count", pa.int64()), lower_states.approx_top_k
)
HLL_SKETCH_AGG: Final = _sketch(HllSketch, LG_K, _is_hashed)
THETA_SKETCH_AGG: Final = _sketch(ThetaSketch, LG_NOMINAL, _is_sketched)
KLL_SKETCH_AGG_DOUBLE: Final = _sketch(KllSketch, K, is_number)
