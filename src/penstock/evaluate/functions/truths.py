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
    return (Count(f"CASE WHEN {aggregate.arguments[0]} THEN 1 END", None),)


COUNT_IF: Final = AggregateFunction((pa.types.is_boolean,), _counted, COUNT.result, COUNT.lower, of_nulls=pa.bool_())
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
