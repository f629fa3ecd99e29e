"""Computes the grouping sets of ROLLUP, CUBE and GROUPING SETS from the values of the finest groups.

Each set is a coarser grouping of the same rows, made from the finest one's values, not from the rows again (Gray et
al. 1997, §5: distributive and algebraic aggregates of a cube).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.components.numbers import Component
from penstock.evaluate.groups import Groups, distinct_rows, sort_keys, value_codes
from penstock.evaluate.windows.partials import Merged, Partials, compact, concatenate
from penstock.model.arrays import Int64Array

Sets = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Subtotals:
    """Rows of all grouping sets in order of evaluation and keys; a key that a row's set is without is NULL."""

    merged: Merged  # its groups are any of the finest ones in the row's group
    sets: Int64Array  # of each row
    keys: tuple[pa.Array, ...]


def subtotals(components: Sequence[Component], merged: Merged, groups: Groups, sets: Sets) -> Subtotals:
    """Combine the finest groups of each evaluation to the groups of each set."""
    finest, place = np.unique(merged.group, return_inverse=True)
    keys = [groups.keys(i, finest) for i in range(len(groups.types))]
    codes = [value_codes(pa.chunked_array([key])) for key in keys]
    planes = tuple(c.planes_of(v) for c, v in zip(components, merged.values, strict=True))
    parts, first, standing, numbers = [], 0, [], []
    for number, members in enumerate(sets):
        chosen = [codes[i] for i in members]
        coarse, one_each = distinct_rows(chosen) if chosen and len(finest) else (np.zeros(len(finest), np.int64),) * 2
        one_each = one_each if chosen else one_each[:1]
        parts.append(Partials(merged.evaluation, first + coarse[place], planes))
        standing.append(one_each)
        numbers.append(np.full(len(one_each), number, np.int64))
        first += len(one_each)
    whole = compact(components, concatenate(parts))
    row, number_of = np.concatenate(standing)[whole.groups], np.concatenate(numbers)[whole.groups]
    shown = [_shown(key, row, number_of, [i in one for one in sets]) for i, key in enumerate(keys)]
    order = sort_keys([pa.array(whole.labels), *shown, pa.array(number_of)])
    whole, row, number_of = whole.take(order), row[order], number_of[order]
    values = tuple(c.values_from(p) for c, p in zip(components, whole.planes, strict=True))
    ordered = tuple(key.take(pa.array(order)) for key in shown)
    return Subtotals(Merged(whole.labels, finest[row], values), number_of, ordered)


def _shown(key: pa.Array, row: Int64Array, number_of: Int64Array, within: Sequence[bool]) -> pa.Array:
    """Take a key for each row, NULL where the row's set is without it."""
    there = pa.array(np.array(within, np.bool_)[number_of])
    place = pc.if_else(there, pa.array(row), pa.scalar(None, pa.int64()))
    return key.take(place)
