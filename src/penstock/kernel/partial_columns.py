"""Reads slice starts and component values from the partial columns of one grouping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.numbers import ROWS, Component, Values
from penstock.evaluate.components.states import spread_states
from penstock.kernel.defects import Defect, defect_of
from penstock.model.arrays import BoolArray, Int64Array
from penstock.share.conditions.fragments import Words, takes_any
from penstock.share.layout import Layout, Member
from penstock.share.partial_schema import ROW_COUNT, component_name, labels_of


def slice_starts(layout: Layout, member: Member, rows: pa.Table, edges: Mapping[int, Sequence[int]]) -> Int64Array:
    """Turn the job's labels (granules, slice starts or positions among edges) into slice starts."""
    labels = labels_of(rows)
    if member.tree in edges:
        found = np.where(labels >= 0, labels, -labels - 2)  # −1: before all edges, too late for every window to come
        known = edges[member.tree]
        return np.take(np.array([known[0] - 1, *known], np.int64), found + 1)
    return layout.managers[member.tree].slice_starts(labels)


def read_components(
    layout: Layout, member: Member, rows: pa.Table, words: Words = ()
) -> tuple[dict[Component, Values], dict[Component, Defect]]:
    """Read a grouping's partials; a component that cannot be read holds nothing, and why is told.

    ``words`` are the rows' signatures, if they have any: a state is read only where a condition that needs it takes
    the row, and is None elsewhere.
    """
    values: dict[Component, Values] = {}
    unread: dict[Component, Defect] = {}
    for component, users in zip(member.grouping.components, member.grouping.users, strict=True):
        try:
            asked = takes_any(words, users) if component.is_state and words else None
            values[component] = _read(component, _columns(layout, component, rows), asked)
        except Exception as error:
            about = " of " + ", ".join(component.arguments) if component.arguments else ""
            unread[component] = defect_of(error, f"the partial {component.kind}{about} was read")
            values[component] = component.values_from(component.identities(rows.num_rows))
    return values, unread


def _read(component: Component, columns: Sequence[pa.ChunkedArray], asked: BoolArray | None) -> Values:
    """Read the values of a component; of a state, only those asked for, if it is told which."""
    if asked is None or asked.all():
        return component.read(columns)
    some = component.read([column.filter(pa.array(asked)) for column in columns])
    return spread_states(some[0] if isinstance(some, tuple) else some, asked)


def _columns(layout: Layout, component: Component, rows: pa.Table) -> list[pa.ChunkedArray]:
    """Return the columns of a component."""
    if component == ROWS:
        return [rows[ROW_COUNT]]
    number = layout.components.index(component.source)
    return [rows[component_name(number, i)] for i in range(len(component.columns))]
