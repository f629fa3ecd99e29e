"""Exact aggregates that need every distinct value: median, percentile, mode and top.

All over one expression share its frequency table, those of distinct values in :mod:`penstock.evaluate.functions.sums`
too.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.errors import WrongType
from penstock.evaluate.components.component import Component
from penstock.evaluate.components.value_tables import FrequencyTable, WeightTable
from penstock.evaluate.functions import lower_frequencies
from penstock.evaluate.functions.bound import AggregateFunction, Types, is_number, is_ordered, same_type, sum_type
from penstock.model.query import Aggregate

WEIGHT_DIGITS: Final = 28  # of a decimal weight; the sum of wider ones might not fit where it is made


def frequencies(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep the frequency table of an argument, or of several together."""
    return (FrequencyTable(aggregate.arguments[0], types[0], aggregate.arguments[1:], tuple(types[1:])),)


def _weighed(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep the frequency table of an argument, or the table of its weights if there are some."""
    if len(types) == 1:
        return frequencies(aggregate, types)
    if pa.types.is_decimal(types[1]) and types[1].precision > WEIGHT_DIGITS:
        what = f'"{aggregate.function}" does not take weights of more than {WEIGHT_DIGITS} digits'
        raise WrongType(what, detail=f"in {aggregate}", about=str(aggregate), hint="Cast them to a narrower decimal.")
    return (WeightTable(aggregate.arguments[0], types[0], aggregate.arguments[1:], tuple(types[1:])),)


def element(type_: pa.DataType) -> pa.DataType:
    """Return the type of an array, as Spark names its parts."""
    return pa.list_(pa.field("element", type_))


def items_of(type_: pa.DataType, name: str, weight: pa.DataType) -> pa.DataType:
    """Return the type of a list of items, each with its count or weight."""
    return element(pa.struct([pa.field("item", type_), pa.field(name, weight)]))


def _percentages(aggregate: Aggregate, types: Types) -> pa.DataType:
    """Return a double, or an array of them for several percentages."""
    several = bool(aggregate.parameters) and isinstance(aggregate.parameters[0], tuple)
    return element(pa.float64()) if several else pa.float64()


def _heaviest(aggregate: Aggregate, types: Types) -> pa.DataType:
    """Return the type of a top list."""
    return (
        items_of(types[0], "count", pa.int64()) if len(types) == 1 else items_of(types[0], "weight", sum_type(types[1]))
    )


PERCENTILE: Final = AggregateFunction(
    (is_number, pa.types.is_signed_integer), _weighed, _percentages, lower_frequencies.percentile
)
MODE: Final = AggregateFunction((is_ordered,), frequencies, same_type, lower_frequencies.mode)
TOP: Final = AggregateFunction((is_ordered, is_number), _weighed, _heaviest, lower_frequencies.top)
