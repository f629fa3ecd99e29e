"""Places queries with windows of rows on the line of row numbers, and turns their answers' numbers into times.

On the line of row numbers a window is a range of numbers, and everything that shares windows of time shares these too.
The times of row numbers come from the same partials: beside each query stands a ruler, a query that answers the least
and the greatest time of every window, whatever the query's conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.finishing import INSTANT
from penstock.evaluate.functions.binding import bind_aggregate
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.kernel.revisions import ROW
from penstock.model.arrays import Int64Array
from penstock.model.query import Aggregate, Output, Query
from penstock.model.window import RowsWindow
from penstock.store.answers import DEFINITION

RULERS: Final = 1 << 40  # numbers of rulers begin here, each with its query's on top; no definition has them
_FIRST, _LAST = "first", "last"


def on_the_line(definition: Definition, origin: int, time: str) -> tuple[Definition, Definition]:
    """Place a query on the line of row numbers from its first row on, and put its ruler beside it."""
    window = definition.query.window
    assert isinstance(window, RowsWindow)
    placed = replace(window, offset=origin)
    query = replace(definition.query, window=placed)
    return replace(definition, typed=replace(definition.typed, query=query)), _ruler(definition, placed, time)


def _ruler(definition: Definition, window: RowsWindow, time: str) -> Definition:
    """Make the query that tells the times of another one's windows."""
    query, typed = definition.query, definition.typed
    when = f"CAST(`{time.replace('`', '``')}` AS TIMESTAMP)"
    aggregates = tuple(Aggregate(name, (when,)) for name in ("min", "max"))
    outputs = tuple(Output(name, f"`a{number}`") for number, name in enumerate((_FIRST, _LAST)))
    keys = tuple(f"`{column.replace('`', '``')}`" for column in window.partition)
    types = tuple(typed.key_types[query.keys.index(key)] for key in keys)
    asked = Query("#ruler", "", query.stream, window, (), None, keys, aggregates, outputs, None, bool(keys))
    bound = tuple(bind_aggregate(aggregate, [INSTANT]) for aggregate in aggregates)
    told = TypedQuery(asked, types, bound, (INSTANT, INSTANT), frozenset({time}), (INSTANT, INSTANT))
    return replace(definition, id=definition.id + RULERS, typed=told)


def dated(tables: Sequence[pa.Table], origins: dict[int, int | None], stride: int = 1 << 62) -> list[pa.Table]:
    """Write times for row numbers: the rulers' answers are looked up, and left out."""
    rulers: dict[int, tuple[Int64Array, pa.Table]] = {}
    found = []
    for table in tables:
        definitions = _column(table, DEFINITION)
        for number in np.unique(definitions[definitions >= RULERS]).tolist():
            mine = table.filter(pa.array(definitions == number))
            ends = _column(mine, "window_end")
            order = np.argsort(ends)
            rulers[number - RULERS] = ends[order], mine.take(pa.array(order))
        if (definitions < RULERS).any():
            found.append(table.filter(pa.array(definitions < RULERS)))
    shown = [with_times(table, rulers, origins) for table in found]
    rows = [(_column(table, ROW) - 1) % stride + 1 for table in shown]  # of parts, each counts its own
    return [t.set_column(t.num_columns - 1, ROW, pa.array(row)) for t, row in zip(shown, rows, strict=True)]


def with_times(
    table: pa.Table, rulers: dict[int, tuple[Int64Array, pa.Table]], origins: dict[int, int | None]
) -> pa.Table:
    """Write times for the row numbers of one table."""
    definitions, ends = _column(table, DEFINITION), _column(table, "window_end")
    times = {name: np.zeros(len(ends), np.int64) for name in (_FIRST, _LAST)}
    for number in np.unique(definitions).tolist():
        mine, (known, ruler) = definitions == number, rulers[number]
        places = np.searchsorted(known, ends[mine])
        for name, column in times.items():
            column[mine] = _column(ruler, name)[places]
    firsts = np.array([origins.get(number) or 0 for number in definitions.tolist()], np.int64)
    for name, told in (("window_start", _FIRST), ("window_end", _LAST)):
        table = table.set_column(table.column_names.index(name), name, pa.array(times[told]).view(INSTANT))
    return table.append_column(ROW, pa.array(ends - firsts))


def _column(table: pa.Table, name: str) -> Int64Array:
    """Read a column of whole numbers or times."""
    return np.asarray(table[name].cast(pa.int64()).to_numpy(), np.int64)
