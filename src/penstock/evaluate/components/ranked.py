"""Picks the first or last of the structs that Spark picked in each slice, for arg_min, arg_max, first, last.

A struct holds what it is picked by, then the value itself. NULL comes before all values and NaN after all numbers, as
Spark orders them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.components.component import Column
from penstock.evaluate.components.reading import whole
from penstock.evaluate.expressions.raw_times import raw_values

Ranked: TypeAlias = tuple[Any, Any]  # what it is picked by, as Python compares it, and the value


def read_ranked(column: Column) -> Iterator[Ranked | None]:
    """Read lists of one struct, whose last field is the value, or none."""
    lists = whole(column)
    structs, held = lists.flatten(), pc.list_value_length(lists).to_pylist()
    fields = [_listed(pc.struct_field(structs, [i])) for i in range(structs.type.num_fields)]
    found = ((tuple(_rank(value) for value in row), row[-1]) for row in zip(*fields, strict=True))
    for length in held:
        yield next(found) if length else None


def _listed(array: pa.Array) -> list[Any]:
    """List values; strings as bytes, which they are compared by and need not be UTF-8, times as whole numbers."""
    if pa.types.is_struct(array.type):
        fields = [_listed(pc.struct_field(array, [i])) for i in range(array.type.num_fields)]
        return [values if ok else None for ok, values in zip(array.is_valid().to_pylist(), zip(*fields), strict=True)]  # noqa: B905
    if pa.types.is_string(array.type):
        array = array.cast(pa.binary())
    return raw_values(array)


def _rank(value: Any) -> Any:
    """Return a key by which Python orders values as Spark does."""
    match value:
        case None:
            return (0,)
        case float():
            return (2,) if value != value else (1, value)
        case tuple() | list():
            return (1, tuple(_rank(part) for part in value))
    return (1, value)


def least_of(states: Sequence[Ranked]) -> Ranked:
    """Pick the one that comes first."""
    return min(states, key=_by_rank)


def greatest_of(states: Sequence[Ranked]) -> Ranked:
    """Pick the one that comes last."""
    return max(states, key=_by_rank)


def _by_rank(state: Ranked) -> Any:
    """Return what a state is picked by."""
    return state[0]
