"""arg_min, arg_max, first and last: one value that was there, picked by another or by the order of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from penstock.evaluate.components.component import Component
from penstock.evaluate.components.ranked import FirstRow, GreatestBy, InOrder, LastRow, LeastBy, Picked
from penstock.evaluate.functions import lower_states
from penstock.evaluate.functions.bound import AggregateFunction, Types, is_comparable, is_ordered, same_type
from penstock.model.query import Aggregate


def _by(kind: type[Picked]) -> Callable[[Aggregate, Types], tuple[Component, ...]]:
    """Keep the value where another is best."""
    return lambda aggregate, types: (kind(aggregate.arguments[0], types[0], aggregate.arguments[1:], tuple(types[1:])),)


def _in_order(kind: type[InOrder]) -> Callable[[Aggregate, Types], tuple[Component, ...]]:
    """Keep the value of one row; a second argument tells which rows are taken."""

    def components(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
        """Keep the value."""
        keep = aggregate.arguments[1] if len(types) > 1 else None
        ignored = int(bool(aggregate.parameters[0]))
        return (kind(aggregate.arguments[0], types[0], aggregate.row, keep=keep, size=ignored),)

    return components


def _is_kept(type_: pa.DataType) -> bool:
    """Tell whether a value of a type can be picked."""
    return is_comparable(type_) and not pa.types.is_null(type_)


def _is_truth(type_: pa.DataType) -> bool:
    """Tell whether a type is that of a condition."""
    return bool(pa.types.is_boolean(type_) or pa.types.is_null(type_))


ARG_MIN: Final = AggregateFunction((_is_kept, is_ordered), _by(LeastBy), same_type, lower_states.picked)
ARG_MAX: Final = AggregateFunction((_is_kept, is_ordered), _by(GreatestBy), same_type, lower_states.picked)
FIRST: Final = AggregateFunction((_is_kept, _is_truth), _in_order(FirstRow), same_type, lower_states.picked)
LAST: Final = AggregateFunction((_is_kept, _is_truth), _in_order(LastRow), same_type, lower_states.picked)
