"""Reads slice starts and component values from the partial columns of one grouping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.numbers import ROWS, Component, Values
from penstock.kernel.defects import Defect, defect_of
from penstock.model.arrays import Int64Array
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
    layout: Layout, member: Member, rows: pa.Table
) -> tuple[dict[Component, Values], dict[Component, Defect]]:
    """Read a grouping's partials; a component that cannot be read holds nothing, and why is told."""
    values: dict[Component, Values] = {}
    unread: dict[Component, Defect] = {}
    for component in member.grouping.components:
        try:
            values[component] = component.read(_columns(layout, component, rows))
        except Exception as error:
            about = " of " + ", ".join(component.arguments) if component.arguments else ""
            unread[component] = defect_of(error, f"the partial {component.kind}{about} was read")
            values[component] = component.values_from(component.identities(rows.num_rows))
    return values, unread


def _columns(layout: Layout, component: Component, rows: pa.Table) -> list[pa.ChunkedArray]:
    """Return the columns of a component."""
    if component == ROWS:
        return [rows[ROW_COUNT]]
    number = layout.components.index(component.source)
    return [rows[component_name(number, i)] for i in range(len(component.columns))]
