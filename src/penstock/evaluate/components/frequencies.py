"""Merges exact frequency tables: the distinct values of a column and how often each came.

A frequency table holds all that count(DISTINCT), median, percentile, mode and top need, so that any number of them
over one column share it (Gray et al. 1997, §5: holistic aggregates need unbounded state; this is the state). Tables
merge by adding counts. A table that would hold more than ``MOST_VALUES`` values is dropped and marked as too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.components.component import Array, Column, Component
from penstock.evaluate.components.reading import comparable, whole
from penstock.evaluate.expressions.raw_times import raw_values
from penstock.model.arrays import Int64Array
from penstock.model.sorting import stable_order

MOST_VALUES: Final = 10_000_000  # distinct ones of one group in one window
RANKED: Final = 2_000  # floats from which on numbering them first pays


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Distinct values in Spark's order, NaN last, and the weight of each: its count, or the sum of its weights."""

    values: Array
    weights: Array
    negative: bool = False  # some single weight is below 0
    overflown: bool = False  # there were too many values, and they are gone

    def __len__(self) -> int:
        """Count the distinct values."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Return about how much memory the table takes."""
        objects = (a for a in (self.values, self.weights) if a.dtype.hasobject)
        return int(self.values.nbytes + self.weights.nbytes + sum(64 * len(a) for a in objects))


def read_weights(component: Component, column: Column) -> Iterator[Frequencies | None]:
    """Read tables from structs of sorted values ``v``, their weights, and the least single weight."""
    array = whole(column)
    values = _values(component, pc.struct_field(array, [0]))
    lists, least = pc.struct_field(array, [1]), pc.struct_field(array, [2]).to_pylist()
    weights = _weights(lists.flatten())
    at = list_bounds(lists)
    for row, own in enumerate(values):
        below = least[row] is not None and least[row] < 0
        yield table_of(own, weights[at[row] : at[row + 1]], below)


def read_counts(lists: pa.Array) -> tuple[Int64Array, Int64Array]:
    """Read how often each value came from lists of where runs begin and the last one ends; also, how many there are."""
    edges, at = np.asarray(lists.flatten().to_numpy(zero_copy_only=False), np.int64), list_bounds(lists)
    listed = np.diff(at)
    begins = np.ones(len(edges), np.bool_)
    begins[at[1:][listed > 0] - 1] = False
    places = np.flatnonzero(begins)
    return edges[places + 1] - edges[places], np.maximum(listed - 1, 0)


def list_bounds(lists: pa.Array) -> Int64Array:
    """Return where each list begins and ends in the flat array of all."""
    at = np.asarray(lists.offsets, np.int64)
    return at - at[0] if len(at) else at


def table_of(values: Array, weights: Array, negative: bool = False) -> Frequencies | None:
    """Make a table, or nothing of nothing; of too many values, a mark."""
    if not len(values):
        return None
    if len(values) > MOST_VALUES:
        return Frequencies(values[:0], weights[:0], overflown=True)
    return Frequencies(values, weights, negative)


def _values(component: Component, lists: pa.Array) -> Iterator[Array]:
    """Read the values of each row, as they compare."""
    flat, at = lists.flatten(), list_bounds(lists)
    found = read_values(component, flat)
    for row in range(len(lists)):
        yield found[at[row] : at[row + 1]]


def read_values(component: Component, flat: pa.Array) -> Array:
    """Read values, as they compare; several that are counted together are a tuple."""
    if pa.types.is_struct(flat.type):
        return _tuples(flat)
    assert component.type is not None
    found, _ = comparable(component.type, flat, 0)
    return found + 0.0 if found.dtype == np.float64 else found  # -0.0 is 0.0


def _tuples(flat: pa.Array) -> Array:
    """Read several values as one that can be told from others: NaN equals NaN, -0.0 equals 0.0."""
    columns = []
    for field in range(flat.type.num_fields):
        column = pc.struct_field(flat, [field])
        if pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        columns.append([_told(value) for value in raw_values(column)])
    return objects(list(zip(*columns, strict=True)))


def _told(value: Any) -> Any:
    """Return a value that equals itself."""
    if isinstance(value, float):
        return (1, 0.0) if value != value else (0, value + 0.0)
    return value


def _weights(flat: pa.Array) -> Array:
    """Read weights: doubles as they are, integers and decimals as whole numbers of their least unit."""
    if pa.types.is_floating(flat.type):
        return np.asarray(flat.to_numpy(zero_copy_only=False), np.float64)
    scale = flat.type.scale if pa.types.is_decimal(flat.type) else 0
    return objects([unscaled(value, scale) for value in flat.to_pylist()])


def unscaled(value: Decimal | int, scale: int) -> int:
    """Return a decimal as a whole number of its least unit."""
    if isinstance(value, int):
        return int(value * 10**scale)
    sign, digits, exponent = value.as_tuple()
    size: int = int("".join(map(str, digits)) or "0") * 10 ** (scale + int(exponent))
    return -size if sign else size


def objects(values: Sequence[Any]) -> Array:
    """Make an array of objects, one a value; numpy by itself would take tuples apart."""
    return np.fromiter(values, object, len(values))


def merge_frequencies(tables: Sequence[Frequencies]) -> Frequencies:
    """Add tables up."""
    if any(table.overflown for table in tables):
        return next(table for table in tables if table.overflown)
    negative = any(table.negative for table in tables)
    values = np.concatenate([table.values for table in tables])
    weights = np.concatenate([table.weights for table in tables])
    if values.dtype.hasobject:
        values, weights = _added(values, weights)
    else:
        values, weights, _ = added_up(values, weights)
    found = table_of(values, weights, negative)
    assert found is not None
    return found


def added_up(values: Array, weights: Array, owner: Array | None = None) -> tuple[Array, Array, Array | None]:
    """Sort numbers by owner, then value, and add the weights of equal ones up; without owners, all are of one."""
    order = in_order(values, owner)
    if order is not None:
        values, weights, owner = values[order], weights[order], None if owner is None else owner[order]
    return equal_added(values, weights, owner)


def equal_added(values: Array, weights: Array, owner: Array | None) -> tuple[Array, Array, Array | None]:
    """Add the weights of equal numbers up that stand in order of owner and value."""
    starts = runs(values, owner)
    if len(starts) == len(values):
        return values, weights, owner
    return values[starts], np.add.reduceat(weights, starts), None if owner is None else owner[starts]


def in_order(values: Array, owner: Array | None) -> Array | None:
    """Return the stable order by owner, then value, NaN last; None if that is how they stand."""
    if len(values) < 2:
        return None
    if values.dtype == np.int64:
        low = int(values.min())
        span = int(values.max()) - low + 1
        size = span if owner is None else (int(owner.max()) + 1) * span
        if size < 1 << 63:
            key = values - low if owner is None else owner * span + (values - low)
            return None if bool((key[1:] >= key[:-1]).all()) else stable_order(key, size)
    if values.dtype == np.float64 and len(values) >= RANKED:
        ranks, many = _ranked(values)
        if owner is None:
            return stable_order(ranks, many)
        return stable_order(owner * many + ranks, many * (1 + int(owner.max())))
    if owner is None:
        return np.argsort(values, kind="stable")
    return np.lexsort((values, owner))


def _ranked(values: Array) -> tuple[Array, int]:
    """Number the distinct values in their order, NaN last; also return how many there are.

    Sorting floats as they come and then small numbers by their digits takes a quarter of what a stable sort takes.
    """
    order = np.argsort(values)
    ordered, numbers = values[order], np.empty(len(values), np.int64)
    starts = np.zeros(len(values), np.int64)
    starts[runs(ordered)[1:]] = 1
    numbers[order] = np.cumsum(starts)
    return numbers, int(numbers[order[-1]]) + 1


def runs(values: Array, owner: Array | None = None) -> Array:
    """Return where each run of equal values, of one owner, begins; NaN equals NaN."""
    if not len(values):
        return np.empty(0, np.int64)
    changes = values[1:] != values[:-1]
    if values.dtype == np.float64:
        changes &= ~(np.isnan(values[1:]) & np.isnan(values[:-1]))
    if owner is not None:
        changes |= owner[1:] != owner[:-1]
    return np.concatenate([[0], np.flatnonzero(changes) + 1]).astype(np.int64)


def _added(values: Array, weights: Array) -> tuple[Array, Array]:
    """Add the weights of equal objects up, and sort."""
    found: dict[Any, Any] = {}
    for value, weight in zip(values, weights.tolist(), strict=True):
        found[value] = found[value] + weight if value in found else weight
    ordered = sorted(found)
    totals = [found[value] for value in ordered]
    return objects(ordered), (objects(totals) if weights.dtype.hasobject else np.array(totals, weights.dtype))
