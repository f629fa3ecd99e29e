"""Counts for each query the rows of a batch that came too late for it.

A row comes too late for a query that takes it if one of the query's windows that hold it was final already and is not
revised. A slice lies wholly inside or outside of every window of its tree, so a late row's slice tells all of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.kernel.arrived import by_grouping
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.window import Window
from penstock.share.conditions.fragments import takes
from penstock.share.layout import Layout, Member
from penstock.share.partial_schema import (
    GROUPING,
    LABEL,
    LATE_COUNT,
    ROW_COUNT,
    TOUCHED_COUNT,
    is_word,
    labels_of,
    words_of,
)
from penstock.share.plan import LaneKey

Ends = Mapping[int, tuple[int, int]]  # definition → the first and last window end that late rows come too late for


def count_too_late(
    layout: Layout, partials: pa.Table, edges: Mapping[int, Sequence[int]], ends: Ends
) -> dict[int, int] | None:
    """Count by definition; None: some partials do not tell, being kept by executors or before all edges."""
    counts = _late_rows(layout, partials)
    chosen = np.flatnonzero(counts > 0)
    named = [n for n in partials.column_names if n in (LABEL, GROUPING) or is_word(n)]
    late = partials.select(named).take(pa.array(chosen)).append_column(ROW_COUNT, pa.array(counts[chosen]))
    found: dict[int, int] = {}
    for member, rows in zip(layout.members, by_grouping(late, len(layout.members)), strict=bool(layout.members)):
        if not rows.num_rows:
            continue
        times = _times(layout, member, rows, edges)
        if times is None:
            return None
        _add(found, layout, member, rows, times, ends)
    return found


def _late_rows(layout: Layout, partials: pa.Table) -> Int64Array:
    """Tell how many late rows each partial holds."""
    granule = layout.marks_late
    if granule is not None:
        labels = partials[LABEL].fill_null(granule.phase).to_numpy()
        return np.where((labels - granule.phase) % granule.step == 1, partials[ROW_COUNT].to_numpy(), 0)
    counted = partials[TOUCHED_COUNT if TOUCHED_COUNT in partials.column_names else LATE_COUNT].to_numpy()
    return np.where(partials[LABEL].is_valid().to_numpy(), counted, 0)


def _times(layout: Layout, member: Member, rows: pa.Table, edges: Mapping[int, Sequence[int]]) -> Int64Array | None:
    """Return a time in the slice of each partial; None: they do not tell."""
    tree = layout.plan.trees[member.tree]
    if any((tree.space, fed.grouping.keys) in layout.spread for fed in member.feeds):
        return None
    labels = labels_of(rows)
    if member.tree not in edges:
        return labels
    places = np.where(labels >= 0, labels, -labels - 2)
    return None if (places < 0).any() else np.take(np.array(edges[member.tree], np.int64), places)


def _add(found: dict[int, int], layout: Layout, member: Member, rows: pa.Table, times: Int64Array, ends: Ends) -> None:
    """Add the rows of one grouping to the queries that it has partials for."""
    tree, counts = layout.plan.trees[member.tree], rows[ROW_COUNT].to_numpy()
    words = words_of(rows, member.grouping.words) if member.signed else []
    for fed in member.feeds:
        for position, condition in zip(fed.conditions, fed.grouping.conditions, strict=True):
            taken = counts if not member.signed else np.where(takes(words, position), counts, 0)
            if not taken.any():
                continue
            for definition in tree.lanes[LaneKey(tree.space, fed.grouping.keys, condition)]:
                missed = taken[in_some_window(definition.query.window, times, *ends[definition.id])]
                found[definition.id] = found.get(definition.id, 0) + int(missed.sum())


def in_some_window(window: Window, times: Int64Array, first_us: int, last_us: int) -> BoolArray:
    """Tell which times are in a window whose end is between two."""
    latest = np.minimum(times + window.length, last_us)
    end = latest - (latest - window.offset) % window.slide
    held: BoolArray = (end > times) & (end >= first_us)
    return held
