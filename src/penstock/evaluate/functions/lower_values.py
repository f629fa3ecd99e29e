"""Puts answers that are Python values into a column of the result's type, and marks those that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Array
from penstock.evaluate.functions.bound import Lowered


@dataclass(frozen=True, slots=True)
class Unanswerable:
    """Why a window has no answer."""

    reason: str


Answer: TypeAlias = Any  # a value of the result's type, None, or Unanswerable
Items: TypeAlias = Sequence[tuple[Any, Any]]  # with the count or weight of each


def lowered(type_: pa.DataType, states: Array, answer: Callable[[Any], Answer]) -> Lowered:
    """Answer state by state."""
    answers = [answer(state) for state in states]
    failed = np.array([isinstance(one, Unanswerable) for one in answers], np.bool_)
    array = arrow_of(type_, [None if isinstance(one, Unanswerable) else one for one in answers])
    if not failed.any():
        return Lowered(array, None)
    return Lowered(array, failed, next(one.reason for one in answers if isinstance(one, Unanswerable)))


def listed(type_: pa.DataType, states: Array, answer: Callable[[Any], Items | Unanswerable]) -> Lowered:
    """Answer lists of items, each with its count or weight; built flat, because strings need not be UTF-8."""
    answers = [answer(state) for state in states]
    lists = [[] if isinstance(one, Unanswerable) else one for one in answers]
    item, weight = (type_.value_type[field] for field in (0, 1))
    pairs = [pair for one in lists for pair in one]
    columns = [arrow_of(field.type, [pair[at] for pair in pairs]) for at, field in enumerate((item, weight))]
    structs = pa.StructArray.from_arrays(columns, fields=[item, weight])
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int32)
    array = pa.ListArray.from_arrays(pa.array(offsets), structs, type=type_)
    failed = np.array([isinstance(one, Unanswerable) for one in answers], np.bool_)
    if not failed.any():
        return Lowered(array, None)
    return Lowered(array, failed, next(one.reason for one in answers if isinstance(one, Unanswerable)))


def rebuilt(value: Any, type_: pa.DataType) -> Any:
    """Turn a struct that is kept as a tuple into what Arrow takes for one."""
    if value is None or not pa.types.is_struct(type_):
        return value
    fields = [type_[place] for place in range(type_.num_fields)]
    return {field.name: rebuilt(part, field.type) for field, part in zip(fields, value, strict=True)}


def arrow_of(type_: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Make a column of values as the kernel keeps them: strings as bytes, dates and times as whole numbers."""
    if pa.types.is_string(type_):  # Spark does not check that strings are UTF-8, and neither do we
        return pa.array([v.encode() if isinstance(v, str) else v for v in values], pa.binary()).view(pa.string())
    if pa.types.is_boolean(type_):
        return pa.array([None if v is None else bool(v) for v in values], type_)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return pa.array([None if v is None else v + 0 for v in values], _wide(type_)).cast(type_)
    if (pa.types.is_date32(type_) or pa.types.is_timestamp(type_)) and _whole(values):
        wide = pa.array([None if v is None else int(v) for v in values], pa.int64())
        return (wide.cast(pa.int32()) if pa.types.is_date32(type_) else wide).cast(type_)
    return pa.array(list(values), type_)


def check_answer(type_: pa.DataType, answer: Any) -> Any:
    """Return what a user's code answers in its declared type, or raise."""
    if answer is None:
        return None
    if pa.types.is_boolean(type_) and not isinstance(answer, bool):
        raise TypeError
    return arrow_of(type_, [answer])[0].as_py()


def _wide(type_: pa.DataType) -> pa.DataType:
    """Return the widest type of a kind, in which the kernel keeps its values."""
    return pa.float64() if pa.types.is_floating(type_) else pa.int64()


def _whole(values: Sequence[Any]) -> bool:
    """Tell whether dates or times are whole numbers."""
    return all(v is None or isinstance(v, int | np.integer) for v in values)


def decimal_of(value: int, type_: pa.Decimal128Type) -> Decimal | Unanswerable:
    """Write a whole number of a decimal's least unit, if the type holds it."""
    if abs(value) >= 10**type_.precision:
        return Unanswerable("a sum does not fit its type")
    return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -type_.scale))
