"""Computes answers from merged sketches, picked values and users' states."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Array
from penstock.evaluate.components.sketches import FrequentItems, Sketch, distinct_in, quantiles_in
from penstock.evaluate.components.user_states import Failed, lower_user_state
from penstock.evaluate.functions.bound import BoundAggregate, Lowered, ValuesOf
from penstock.evaluate.functions.lower_values import Answer, Unanswerable, check_answer, listed, lowered, rebuilt


def _states(bound: BoundAggregate, values: ValuesOf) -> Array:
    """Return the states of an aggregate's one component."""
    return np.asarray(values[bound.components[0]])


def picked(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Return the value that was picked; NULL of nothing."""

    def found(state: Any) -> Answer:
        return None if state is None else rebuilt(state[1], bound.type)

    return lowered(bound.type, _states(bound, values), found)


def approx_count_distinct(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Estimate how many distinct values there are; never NULL."""
    return lowered(bound.type, _states(bound, values), distinct_in)


def approx_percentile(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Estimate percentiles, each a value that came, in its own type."""
    wanted = bound.aggregate.parameters[0]
    ranks = wanted if isinstance(wanted, tuple) else (float(wanted),)
    type_ = bound.components[0].type
    assert type_ is not None

    def found(state: bytes | None) -> Answer:
        quantiles = quantiles_in(state, ranks)
        if quantiles is None:
            return None
        answers = [_of_type(value, type_) for value in quantiles]
        return answers if isinstance(wanted, tuple) else answers[0]

    return lowered(bound.type, _states(bound, values), found)


def _of_type(value: float, type_: pa.DataType) -> Any:
    """Write a double as the number it stands for."""
    if pa.types.is_decimal(type_):
        most = Decimal(10 ** (type_.precision - type_.scale)) - Decimal(1).scaleb(-type_.scale)
        return min(most, max(-most, Decimal(repr(value)).quantize(Decimal(1).scaleb(-type_.scale))))
    if not pa.types.is_integer(type_):
        return value
    most_whole = (1 << (type_.bit_width - 1)) - 1
    return min(most_whole, max(-most_whole - 1, int(value)))


def approx_top_k(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """List the items that are probably the most frequent ones, with estimated counts."""
    k = int(bound.aggregate.parameters[0]) if bound.aggregate.parameters else 5  # type: ignore[arg-type]
    component, item = bound.components[0], bound.type.value_type[0].type
    assert isinstance(component, FrequentItems)

    def found(state: bytes | None) -> list[tuple[Any, int]]:
        return [(_item(value, item), count) for value, count in component.frequent(state, k)]

    return listed(bound.type, _states(bound, values), found)


def _item(value: Any, type_: pa.DataType) -> Any:
    """Read an item back from what stands for it in the sketch."""
    if pa.types.is_floating(type_):
        return float(value)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return bytes.fromhex(value)
    return Decimal(value) if pa.types.is_decimal(type_) else value


def sketch(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Return the sketch itself, as Spark's functions read it; of nothing, an empty one."""
    component = bound.components[0]
    assert isinstance(component, Sketch)
    empty = component.empty
    return lowered(bound.type, _states(bound, values), lambda state: empty if state is None else state)


def own(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Let the user's code turn states into answers; what it raises, or returns of another type, is no answer."""
    function = bound.components[0].code
    assert function is not None

    def found(state: Any) -> Answer:
        answer = lower_user_state(function, state)
        if isinstance(answer, Failed):
            return Unanswerable(f"{function.name}(): {answer.reason}")
        try:
            return check_answer(bound.type, answer)
        except Exception:
            shown = f"{type(answer).__name__} {repr(answer)[:60]}"
            what = f"{function.name}(): lower returned {shown}, which is not of type {function.returns}"
            return Unanswerable(what)

    return lowered(bound.type, _states(bound, values), found)
