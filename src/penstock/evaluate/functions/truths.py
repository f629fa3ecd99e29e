"""count_if, bool_and and bool_or: truth values counted, and put together."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.evaluate.components.component import Component
from penstock.evaluate.components.extremes import Greatest, Least
from penstock.evaluate.components.numbers import Count
from penstock.evaluate.functions.bound import AggregateFunction, Types, same_type
from penstock.evaluate.functions.extremes import lower_folded
from penstock.evaluate.functions.sums import COUNT
from penstock.model.query import Aggregate


def _counted(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Count the rows where a condition holds, as count(*) FILTER does."""
    condition = aggregate.arguments[0]
    if pa.types.is_null(types[0]):
        condition = f"CAST({condition} AS BOOLEAN)"  # Spark takes no NULL without a type as a condition
    return (Count(f"CASE WHEN {condition} THEN 1 END", None),)


def _is_condition(type_: pa.DataType) -> bool:
    return bool(pa.types.is_boolean(type_) or pa.types.is_null(type_))


COUNT_IF: Final = AggregateFunction((_is_condition,), _counted, COUNT.result, COUNT.lower)
BOOL_AND: Final = AggregateFunction(
    (pa.types.is_boolean,),
    lambda aggregate, types: (Least(aggregate.arguments[0], types[0]),),
    same_type,
    lower_folded,
    of_nulls=pa.bool_(),
)
BOOL_OR: Final = AggregateFunction(
    (pa.types.is_boolean,),
    lambda aggregate, types: (Greatest(aggregate.arguments[0], types[0]),),
    same_type,
    lower_folded,
    of_nulls=pa.bool_(),
)
