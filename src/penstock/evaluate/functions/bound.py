"""Defines a bound aggregate: its typed arguments, the components it needs, and how its answer is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from penstock.errors import WrongType
from penstock.evaluate.components.component import Component, Values
from penstock.evaluate.expressions.ddl import type_name
from penstock.model.arrays import BoolArray
from penstock.model.query import Aggregate

Types: TypeAlias = Sequence[pa.DataType]
ValuesOf: TypeAlias = Mapping[Component, Values]
TypeTest: TypeAlias = Callable[[pa.DataType], bool]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A column of answers made from merged values, the rows that failed (None: none did), and why."""

    array: pa.Array
    failed: BoolArray | None
    reason: str = "a sum does not fit its type"


@dataclass(frozen=True, slots=True)
class BoundAggregate:
    """An aggregate with its argument's type: what it needs stored, and how an answer is made of that."""

    aggregate: Aggregate
    components: tuple[Component, ...]
    type: pa.DataType
    finish: Callable[[BoundAggregate, ValuesOf], Lowered]

    def lower(self, values: ValuesOf) -> Lowered:
        """Turn merged values into answers of exactly the result type."""
        return self.finish(self, values)


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """What the calls of one function mean.

    ``takes`` tests the type of each argument, the last test those of all that follow. An argument that is always NULL
    counts as one of type ``of_nulls``, where Spark casts it.
    """

    takes: tuple[TypeTest, ...]
    components: Callable[[Aggregate, Types], tuple[Component, ...]]  # what it needs stored
    result: Callable[[Aggregate, Types], pa.DataType]
    lower: Callable[[BoundAggregate, ValuesOf], Lowered]  # how answers are made of that
    of_nulls: pa.DataType | None = None
    distinct: AggregateFunction | None = None  # what it means with DISTINCT

    def bind(self, aggregate: Aggregate, types: Types) -> BoundAggregate:
        """Give a call the types of its arguments."""
        if self.of_nulls is not None:
            types = [self.of_nulls if pa.types.is_null(type_) else type_ for type_ in types]
        for place, type_ in enumerate(types):
            if not self.takes[min(place, len(self.takes) - 1)](type_):
                what = f'"{aggregate.function}" does not take an argument of type {type_name(type_)}'
                raise WrongType(what, detail=f"in {aggregate}", about=str(aggregate))
        return BoundAggregate(aggregate, self.components(aggregate, types), self.result(aggregate, types), self.lower)


def always(type_: pa.DataType) -> Callable[[Aggregate, Types], pa.DataType]:
    """Make the result's type of a function that has the same one for all arguments."""
    return lambda aggregate, types: type_


def same_type(aggregate: Aggregate, types: Types) -> pa.DataType:
    """Return the type of the first argument."""
    return types[0]


def is_any(type_: pa.DataType) -> bool:
    """Take values of any type."""
    return True


def sum_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of a sum: of decimals, ten more digits."""
    if pa.types.is_decimal(type_):
        return pa.decimal128(min(38, type_.precision + 10), type_.scale)
    return pa.float64() if pa.types.is_floating(type_) else pa.int64()


def average_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of an average: of decimals, four more digits."""
    if pa.types.is_decimal(type_):
        return pa.decimal128(min(38, type_.precision + 4), min(38, type_.scale + 4))
    return pa.float64()


def is_number(type_: pa.DataType) -> bool:
    """Tell whether Spark adds values of a type up."""
    tests = (pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_decimal128)
    return any(test(type_) for test in tests)


def is_ordered(type_: pa.DataType) -> bool:
    """Tell whether the least and greatest value of a type can be kept."""
    tests = (is_number, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary, pa.types.is_date32)
    return any(test(type_) for test in tests) or (pa.types.is_timestamp(type_) and type_.unit == "us")


def is_comparable(type_: pa.DataType) -> bool:
    """Tell whether Spark orders values of a type, nested ones included."""
    if pa.types.is_struct(type_):
        return all(is_comparable(type_[i].type) for i in range(type_.num_fields))
    if pa.types.is_list(type_):
        return is_comparable(type_.value_type)
    return is_ordered(type_) or pa.types.is_null(type_)


def of_moments(
    component: Callable[[str, pa.DataType], Component], lower: Callable[[BoundAggregate, ValuesOf], Lowered]
) -> AggregateFunction:
    """Make a function of one number that is answered from moments, as a double."""

    def needed(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
        return (component(aggregate.arguments[0], types[0]),)

    return AggregateFunction((is_number,), needed, always(pa.float64()), lower, of_nulls=pa.float64())
