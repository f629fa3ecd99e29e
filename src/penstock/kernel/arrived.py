"""Reads from a batch's partials what arrived: rows on time and late, first and last time, failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.evaluate.groups import KeyValues, told_apart
from penstock.kernel.defects import Defect, defect_of
from penstock.kernel.signing import by_number
from penstock.model.arrays import Int64Array
from penstock.share.layout import Layout
from penstock.share.partial_schema import (
    CORRECTED_COUNT,
    FAILURE_PARTS,
    FIRST_TIME,
    GROUPING,
    LABEL,
    LAST_TIME,
    LATE_COUNT,
    ROW_COUNT,
    SHED_COUNT,
    SIGNED_COUNT,
    failure_name,
    has_groupings,
    key_name,
    labels_of,
    stream_rows,
)
from penstock.share.plan import LaneKey


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a batch held, as its partials tell."""

    rows: int
    on_time: int
    corrected: int  # late, and in a final window whose answer is revised
    late: int  # all the other late ones
    invalid: int
    first_us: int | None  # smallest and greatest valid time
    last_us: int | None
    highest: int | None  # slice
    failures: Mapping[int, tuple[int, int, int]]  # definition → first and last failing time, rows
    shed: int = 0  # valid ones that queries which shed load did not look at
    signed: tuple[Int64Array, Int64Array] | None = None  # of partials: sums of signs, and rows that a sample kept
    touched: Mapping[LaneKey, tuple[Int64Array, Int64Array]] = field(
        default_factory=dict
    )  # by late rows: slices, groups


def keys_told_apart(layout: Layout, partials: pa.Table) -> tuple[pa.Table, dict[int, KeyValues | Defect]]:
    """Put codes in place of keys, once for all groupings; return what they stand for, too, or why there are none."""
    values: dict[int, KeyValues | Defect] = {}
    for slot in sorted({slot for member in layout.members for slot in member.slots}):
        place = partials.column_names.index(key_name(slot))
        try:
            codes, values[slot] = told_apart(partials.column(place))
            partials = partials.set_column(place, key_name(slot), pa.array(codes))
        except Exception as error:
            values[slot] = defect_of(error, "keys were told apart")
    return partials, values


def by_grouping(partials: pa.Table, count: int) -> list[pa.Table]:
    """Part a batch's partials by their grouping, in one pass however many there are; the only one has them all."""
    if not has_groupings(partials):
        return [partials]
    numbers = np.asarray(partials[GROUPING].to_numpy(), np.int32)
    if bool((numbers[1:] >= numbers[:-1]).all()):  # as the driver makes them, and columns of others are not looked at
        ends, parted = np.searchsorted(numbers, np.arange(count + 1)), partials
    else:
        order, ends = by_number(numbers, count)
        parted = partials.combine_chunks().take(pa.array(order))
    return [parted.slice(start, end - start) for start, end in pairwise(ends.tolist())]


def rows_in(partials: pa.Table) -> int:
    """Count the rows that a batch's partials were made of, before these are filed: the first grouping has them all."""
    counts = stream_rows(partials).to_numpy()
    return int((counts[partials[GROUPING].to_numpy() == 0] if has_groupings(partials) else counts).sum())


def first_time(layout: Layout, partials: pa.Table) -> int | None:
    """Return the smallest valid time of a batch, before its partials are filed; None: it has no valid row."""
    return statistics(layout, by_grouping(partials, len(layout.members))[0]).first_us


def statistics(layout: Layout, rows: pa.Table) -> Arrived:
    """Read the batch's counts from the partials of the first grouping, which carries every row."""
    valid = rows[LABEL].is_valid().to_numpy()
    base = stream_rows(rows).to_numpy()
    last = rows[LAST_TIME].to_numpy()[valid]
    first, on_time, corrected, late = _timeliness(layout, rows.filter(pa.array(valid)))
    failures = {}
    for definition in layout.attempts:
        hit = rows[failure_name(definition, ROW_COUNT)].to_numpy() > 0
        if hit.any():
            failing = [rows[failure_name(definition, part)].to_numpy()[hit] for part in FAILURE_PARTS]
            failures[definition] = (int(failing[0].min()), int(failing[1].max()), int(failing[2].sum()))
    return Arrived(
        int(base.sum()),
        on_time,
        corrected,
        late,
        int(base[~valid].sum()),
        first,
        int(last.max()) if len(last) else None,
        None,
        failures,
        _sum(rows[SHED_COUNT]) if layout.samples else 0,
        _signed(rows.filter(pa.array(valid))) if layout.samples else None,
    )


def _signed(rows: pa.Table) -> tuple[Int64Array, Int64Array] | None:
    """Read what tells how many rows agree; None: partials of an earlier version do not."""
    if SIGNED_COUNT not in rows.column_names:
        return None
    kept = stream_rows(rows).to_numpy() - rows[SHED_COUNT].to_numpy()
    return np.asarray(rows[SIGNED_COUNT].to_numpy(), np.int64), np.asarray(kept, np.int64)


def _timeliness(layout: Layout, rows: pa.Table) -> tuple[int | None, int, int, int]:
    """Read the first time and the rows on time, corrected and late, from columns of their own or from the labels."""
    granule = layout.marks_late
    if granule is None:
        first, late = rows[FIRST_TIME].to_numpy(), _sum(rows[LATE_COUNT])
        corrected = _sum(rows[CORRECTED_COUNT]) if layout.revising else 0
        counted = _sum(stream_rows(rows))
        return (int(first.min()) if len(first) else None), counted - late, corrected, late - corrected
    labels, counted = labels_of(rows), rows[ROW_COUNT].to_numpy()
    late_ones = (labels - granule.phase) % granule.step == 1
    first_us = int((labels - late_ones).min()) if len(labels) else None
    return first_us, int(counted[~late_ones].sum()), 0, int(counted[late_ones].sum())


def _sum(column: pa.ChunkedArray) -> int:
    """Add a column of counts up."""
    return int(column.to_numpy().sum())
