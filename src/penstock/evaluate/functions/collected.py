"""collect_list, collect_set and listagg, of at most so many values; more pause the query, as no answer is cut off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.collected import MOST_COLLECTED, Collected, CollectedValues
from penstock.evaluate.components.component import Component
from penstock.evaluate.components.frequencies import Frequencies
from penstock.evaluate.components.value_tables import FrequencyTable
from penstock.evaluate.functions.bound import (
    AggregateFunction,
    BoundAggregate,
    Lowered,
    Types,
    ValuesOf,
    always,
    is_comparable,
    is_ordered,
)
from penstock.evaluate.functions.lower_values import Unanswerable, arrow_of, lowered, rebuilt
from penstock.evaluate.functions.tabled import element, frequencies
from penstock.model.query import Aggregate

Found = list[Any] | Unanswerable  # the values of one group


def _in_order(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep values in the order of rows."""
    return (CollectedValues(aggregate.arguments[0], types[0], aggregate.row),)


def _texts(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep values as strings, in the order of rows."""
    return (CollectedValues(_text(aggregate, types), pa.string(), aggregate.row),)


def _distinct_texts(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep the distinct strings."""
    return (FrequencyTable(_text(aggregate, types), pa.string()),)


def _text(aggregate: Aggregate, types: Types) -> str:
    """Write a value as a string."""
    return aggregate.arguments[0] if pa.types.is_string(types[0]) else f"CAST({aggregate.arguments[0]} AS STRING)"


def _array(aggregate: Aggregate, types: Types) -> pa.DataType:
    """Return the type of a list of values."""
    return element(types[0])


def _values(bound: BoundAggregate, state: Collected | Frequencies | None) -> Found:
    """List what a state holds, or say that it is too much."""
    if state is None:
        return []
    if isinstance(state, Collected):
        return _too_many(bound, "values") if state.too_many else state.values
    if state.overflown or len(state) > MOST_COLLECTED:
        return _too_many(bound, "distinct values")
    return list(state.values)


def _too_many(bound: BoundAggregate, what: str) -> Unanswerable:
    """Say that no answer is cut off."""
    return Unanswerable(f"more than {MOST_COLLECTED:,} {what} in {bound.aggregate} of one group and window")


def _lower_lists(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer a list; of nothing an empty one. Built flat, because strings need not be UTF-8."""
    found = [_values(bound, state) for state in np.asarray(values[bound.components[0]])]
    failed = np.array([isinstance(one, Unanswerable) for one in found], np.bool_)
    lists: Sequence[list[Any]] = [[] if isinstance(one, Unanswerable) else one for one in found]
    type_ = bound.type.value_type
    flat = arrow_of(type_, [rebuilt(value, type_) for one in lists for value in one])
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int32)
    array = pa.ListArray.from_arrays(pa.array(offsets), flat, type=bound.type)
    if not failed.any():
        return Lowered(array, None)
    return Lowered(array, failed, next(one.reason for one in found if isinstance(one, Unanswerable)))


def _lower_joined(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer strings, one after the other with what stands between them; NULL of nothing."""
    (between,) = bound.aggregate.parameters
    assert isinstance(between, str)

    def joined(state: Any) -> Any:
        found = _values(bound, state)
        return found if isinstance(found, Unanswerable) else (between.encode().join(found) if found else None)

    return lowered(bound.type, np.asarray(values[bound.components[0]]), joined)


def _is_listed(type_: pa.DataType) -> bool:
    """Tell whether values of a type can be put in order."""
    return is_comparable(type_) and not pa.types.is_null(type_)


def _is_text(type_: pa.DataType) -> bool:
    """Tell whether a value is a string, or Spark writes it as one."""
    return is_ordered(type_) and not pa.types.is_binary(type_)


def _joined(components: Callable[[Aggregate, Types], tuple[Component, ...]]) -> AggregateFunction:
    """Make a function that joins strings."""
    return AggregateFunction((_is_text,), components, always(pa.string()), _lower_joined, of_nulls=pa.string())


COLLECT_SET: Final = AggregateFunction((is_ordered,), frequencies, _array, _lower_lists)
COLLECT_LIST: Final = AggregateFunction((_is_listed,), _in_order, _array, _lower_lists, distinct=COLLECT_SET)
LISTAGG: Final = AggregateFunction(
    (_is_text,), _texts, always(pa.string()), _lower_joined, of_nulls=pa.string(), distinct=_joined(_distinct_texts)
)
