"""Computes distinct counts, sums, percentiles, modes and top lists from merged frequency tables.

Percentiles are Spark's, linear between the two nearest values. Ties go to the least value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.evaluate.components import frequencies
from penstock.evaluate.components.component import Array
from penstock.evaluate.components.frequencies import Frequencies, unscaled
from penstock.evaluate.components.frequency_tables import FlatTables, FrequencyTables, bounds_of
from penstock.evaluate.functions.bound import BoundAggregate, Lowered, ValuesOf
from penstock.evaluate.functions.lower_values import Answer, Unanswerable, arrow_of, decimal_of, listed, lowered
from penstock.model.arrays import BoolArray

Table = Frequencies | None


def _tables(bound: BoundAggregate, values: ValuesOf, answer: Callable[[Table], Answer]) -> Lowered:
    """Answer each table; one that was let go has no answer."""

    def checked(table: Table) -> Answer:
        return _too_many(bound) if table is not None and table.overflown else answer(table)

    return lowered(bound.type, np.asarray(values[bound.components[0]]), checked)


def _too_many(bound: BoundAggregate) -> Unanswerable:
    """Say that a table was let go, and what to ask for instead."""
    instead = {"percentile": "percentile", "median": "percentile", "top": "top_k", "mode": "top_k"}
    name = instead.get(bound.aggregate.function, "count_distinct")
    many = f"more than {frequencies.MOST_VALUES:,} distinct values in {bound.aggregate}"
    return Unanswerable(f"{many}; approx_{name}() takes any number of them")


def _flat(bound: BoundAggregate, values: ValuesOf) -> FrequencyTables | None:
    """Return tables that can be read all at once, if that is what they are, and none is too long."""
    tables = values[bound.components[0]]
    return tables if isinstance(tables, FrequencyTables) and tables.longest <= frequencies.MOST_VALUES else None


def count_distinct(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Count the values; never NULL."""
    if (tables := _flat(bound, values)) is not None:
        return Lowered(pa.array(tables.lengths), None)
    return _tables(bound, values, lambda table: 0 if table is None else len(table))


def sum_distinct(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Add the values up, each once."""

    def total(table: Table) -> Answer:
        if table is None:
            return None
        if pa.types.is_floating(bound.type):
            return _float_sum(table.values)
        return _whole(bound, _exact_sum(bound, table))

    return _tables(bound, values, total)


def avg_distinct(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Average the values, each once; decimals are rounded half up."""
    type_ = bound.components[0].type
    assert type_ is not None

    def mean(table: Table) -> Answer:
        if table is None:
            return None
        if pa.types.is_floating(type_):
            return _float_sum(table.values) / len(table)
        exact = _exact_sum(bound, table)
        if not pa.types.is_decimal(type_):
            return exact / len(table)
        if abs(exact) >= 10 ** min(38, type_.precision + 10):
            return Unanswerable("a sum does not fit its type")
        scaled = abs(exact) * 10 ** (bound.type.scale - type_.scale)
        rounded = (2 * scaled + len(table)) // (2 * len(table))
        return _whole(bound, rounded if exact >= 0 else -rounded)

    return _tables(bound, values, mean)


def _float_sum(values: Array) -> float:
    """Add doubles up."""
    with np.errstate(all="ignore"):
        return float(np.sum(values))


def _exact_sum(bound: BoundAggregate, table: Frequencies) -> int:
    """Add integers or decimals up, as whole numbers of the least unit."""
    type_ = bound.components[0].type
    assert type_ is not None
    if pa.types.is_decimal(type_):
        return sum((unscaled(value, type_.scale) for value in table.values), 0)
    return int(sum(table.values.tolist()))


def _whole(bound: BoundAggregate, value: int) -> Answer:
    """Write a whole number of the least unit in the result's type, if it fits."""
    if pa.types.is_decimal(bound.type):
        return decimal_of(value, bound.type)
    return value if -(1 << 63) <= value < 1 << 63 else Unanswerable("a sum does not fit its type")


def percentile(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Interpolate between the values next to each position; several percentages give an array."""
    wanted = bound.aggregate.parameters[0] if bound.aggregate.parameters else 0.5
    ranks = wanted if isinstance(wanted, tuple) else (float(wanted),)
    if (tables := _flat(bound, values)) is not None:
        return Lowered(_written(bound.type, *tables.at_ranks(ranks)), None)
    states = np.asarray(values[bound.components[0]])
    sound = [table for table in states if table is not None and not (table.overflown or table.negative)]
    found = dict(zip(map(id, sound), zip(*_percentiles(sound, ranks), strict=True), strict=True))

    def answer(table: Table) -> Answer:
        if table is not None and table.negative:
            return Unanswerable(f"a negative frequency in {bound.aggregate}")
        answers = found.get(id(table), (None,))
        if answers[0] is None:
            return None
        return list(answers) if isinstance(wanted, tuple) else answers[0]

    return _tables(bound, values, answer)


def _percentiles(tables: Sequence[Frequencies], ranks: Sequence[float]) -> list[list[float | None]]:
    """Return for each rank the tables' values at positions rank · (n - 1), all tables at once; None of no value."""
    if not tables:
        return [[] for _ in ranks]
    weights = [np.asarray(table.weights, np.int64) for table in tables]
    values = np.concatenate([np.asarray(table.values, np.float64) for table in tables])
    bounds = bounds_of([len(w) for w in weights])
    answers, missing = FlatTables(values, np.concatenate(weights), bounds).at_ranks(ranks)
    return [[None if gone else one for one, gone in zip(each.tolist(), missing, strict=True)] for each in answers]


def _written(type_: pa.DataType, answers: Sequence[Array], missing: BoolArray) -> pa.Array:
    """Write the values at one rank, or lists of those at several; NULL where there is none."""
    if not pa.types.is_list(type_):
        return pa.array(answers[0], mask=missing)
    flat = np.stack(answers, axis=1)[~missing].reshape(-1)
    ends = np.concatenate([[0], np.cumsum(np.where(missing, 0, len(answers)))])
    offsets = pa.array(ends, pa.int32(), mask=np.append(missing, False))
    return pa.ListArray.from_arrays(offsets, pa.array(flat), type=type_)


def mode(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Return the most frequent value, of several the least."""
    if (tables := _flat(bound, values)) is not None:
        return Lowered(arrow_of(bound.type, _most_frequent(tables)), None)

    def found(table: Table) -> Answer:
        return None if table is None else table.values[int(np.argmax(table.weights))]

    return _tables(bound, values, found)


def _most_frequent(tables: FrequencyTables) -> list[Any]:
    """Return the first value of the greatest count of each table; None of nothing."""
    flat = tables.flat
    found: list[Any] = [None] * len(tables)
    held = np.flatnonzero(flat.lengths)
    if len(held):
        starts = flat.bounds[held]
        most = np.repeat(np.maximum.reduceat(flat.weights, starts), flat.lengths[held])
        places = np.flatnonzero(flat.weights == most)
        for table, value in zip(held, flat.values[places[np.searchsorted(places, starts)]], strict=True):
            found[table] = value
    return found


def top(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """List the values of the greatest weights, greatest first, then least value first."""
    k, weight = int(bound.aggregate.parameters[0]), bound.type.value_type[1].type  # type: ignore[arg-type]
    tables = _flat(bound, values)
    if tables is not None and pa.types.is_integer(weight):
        return Lowered(_heaviest_of_each(bound.type, tables.flat, k), None)

    def found(table: Table) -> list[tuple[Any, Any]] | Unanswerable:
        if table is None:
            return []
        if table.overflown:
            return _too_many(bound)
        pairs = [(table.values[place], _weight(table.weights[place], weight)) for place in _heaviest(table.weights, k)]
        return next((one for _, one in pairs if isinstance(one, Unanswerable)), pairs)

    return listed(bound.type, np.asarray(values[bound.components[0]]), found)


def _heaviest_of_each(type_: pa.DataType, tables: FlatTables, k: int) -> pa.Array:
    """List the k most frequent values of each table; values ascend in it, so a stable order keeps the least first."""
    owner = np.repeat(np.arange(len(tables)), tables.lengths)
    order = np.lexsort((-tables.weights, owner))
    chosen = order[np.arange(len(order)) - tables.bounds[owner] < k]
    item, weight = (type_.value_type[field] for field in (0, 1))
    columns = [arrow_of(item.type, tables.values[chosen].tolist()), pa.array(tables.weights[chosen]).cast(weight.type)]
    structs = pa.StructArray.from_arrays(columns, fields=[item, weight])
    offsets = bounds_of(np.minimum(tables.lengths, k)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=type_)


def _heaviest(weights: Array, k: int) -> list[int]:
    """Return where the k greatest weights stand; values ascend, so a stable order keeps the least first."""
    if weights.dtype.hasobject:
        return sorted(range(len(weights)), key=lambda place: -weights[place])[:k]
    turned = -weights
    if weights.dtype == np.float64:  # NaN is greatest
        turned = np.where(np.isnan(weights), -np.inf, np.where(np.isposinf(weights), -np.finfo(np.float64).max, turned))
    return [int(place) for place in np.argsort(turned, kind="stable")[:k]]


def _weight(value: Any, type_: pa.DataType) -> Any:
    """Write a weight in its type, if it fits."""
    if pa.types.is_decimal(type_):
        return decimal_of(int(value), type_)
    if pa.types.is_floating(type_):
        return float(value)
    fits = -(1 << 63) <= int(value) < 1 << 63
    return int(value) if fits else Unanswerable("a sum does not fit its type")
