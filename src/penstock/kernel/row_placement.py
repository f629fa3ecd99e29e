"""Finds in the driver the slices and cells of rows that a batch's job has sent with plain values only.

Spark then has little to analyse, optimise and generate code for, and what changes from batch to batch (the watermark,
edges) and from plan to plan (constants of conditions) is no part of its job (decision 0040).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.kernel.row_cells import can_be_found, can_fail, cell_numbers, positions_on
from penstock.kernel.signing import LONE
from penstock.model.arrays import BoolArray, Int64Array
from penstock.share.conditions.cells import Cells
from penstock.share.layout import Layout, Member
from penstock.share.locate import ByDivision, BySearch, Locating
from penstock.share.row_schema import TIME, RowSchema, label_name
from penstock.share.slices import Progression
from penstock.store.invalid import AHEAD, FLOOR, TOO_EARLY


@dataclass(frozen=True, slots=True)
class TestedColumns:
    """How the rows of some groupings are told apart, and the columns with the values of each axis."""

    cells: Cells
    columns: tuple[str, ...]  # by axis
    failed: tuple[str | None, ...]  # by axis: the column that tells whether its value could not be computed

    def positions(self, rows: pa.Table) -> list[Int64Array]:
        """Find where on every axis rows stand."""
        named = zip(self.cells.axes, self.columns, self.failed, strict=True)
        return [positions_on(axis, rows[name], None if f is None else rows[f]) for axis, name, f in named]


def can_be_placed(layout: Layout, signed: Cells, lone: Cells) -> bool:
    """Tell whether the driver can find the slices and cells of a layout's rows from plain values.

    ``signed`` tells the rows of groupings of several conditions apart, ``lone`` those of a lone one, which is asked as
    a whole: a part of it that may fail must not be computed without its guard.
    """
    listed = all(part.numbers is not None for parts in lone.parts for part in parts)
    left = layout.revising or layout.doubtful or layout.attempts
    return not left and listed and can_be_found(signed) and can_be_found(lone) and not can_fail(lone)


class RowPlacement:
    """Adds slices and cells to the rows of one layout."""

    def __init__(self, layout: Layout, schema: RowSchema, signed: TestedColumns, lone: TestedColumns) -> None:
        """Take a layout, and what tells rows apart: for groupings of several conditions, and of a lone one."""
        self.layout, self.schema, self.signed, self.lone = layout, schema, signed, lone

    def placed(self, rows: pa.Table, watermark_us: int, ahead_us: int, edges: Mapping[int, Sequence[int]]) -> pa.Table:
        """Add the columns of slices and cells to rows."""
        times = rows[TIME].combine_chunks()
        present = np.asarray(times.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        numbers = np.asarray(times.fill_null(0).to_numpy(zero_copy_only=False), np.int64)
        clock = _Clock(numbers, present, present & (numbers < ahead_us) & (numbers > FLOOR), watermark_us)
        found = dict(zip(rows.column_names, rows.columns, strict=True)) | self._labels(clock, edges)
        return pa.table(found | self._cells(rows, clock.valid))

    def _labels(self, clock: _Clock, edges: Mapping[int, Sequence[int]]) -> dict[str, pa.Array]:
        """Find the slices of rows in every tree; without trees, only whether rows are valid."""
        marked = self.layout.marks_late is not None
        found = {
            label_name(tree): clock.label(labels(way, clock.times, edges.get(tree, ())), marked=marked)
            for tree, way in enumerate(self.layout.locating)
        }
        return found or {label_name(0): clock.label(np.zeros(len(clock.times), np.int64))}

    def _cells(self, rows: pa.Table, valid: BoolArray) -> dict[str, pa.Array]:
        """Find the cells of rows in every part of every grouping that has conditions."""
        signed, lone = self.signed.positions(rows), self.lone.positions(rows)
        found = {}
        for member in self.layout.members:
            for place, name in enumerate(self.schema.cells.get(member.number, ())):
                numbers = self._numbers(member, place, signed, lone, rows.num_rows)
                told = np.where(valid, numbers, -1)
                found[name] = pa.array(np.maximum(told, 0) if member.carrier and place == 0 else told)
        return found

    def _numbers(
        self, member: Member, place: int, signed: Sequence[Int64Array], lone: Sequence[Int64Array], rows: int
    ) -> Int64Array:
        """Number the rows of one part of a grouping."""
        if parts := self.lone.cells.parts[member.number]:
            return np.where(cell_numbers(parts[0], lone, rows) >= 0, LONE, -1)
        return cell_numbers(self.signed.cells.parts[member.number][place], signed, rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Clock:
    """The times of a batch's rows, and how they are judged."""

    times: Int64Array
    present: BoolArray
    valid: BoolArray
    watermark_us: int

    def label(self, labels: Int64Array, *, marked: bool = False) -> pa.Array:
        """Label rows: valid ones by their slice, and by one more where that tells late ones; others by the reason."""
        labels = labels + (self.times < self.watermark_us) if marked else labels
        found = np.where(self.valid, labels, np.where(self.times > FLOOR, AHEAD, TOO_EARLY))
        return pa.array(found, mask=None if self.present.all() else ~self.present)


def labels(way: Locating, times: Int64Array, edges: Sequence[int]) -> Int64Array:
    """Tell where the slices of rows start, or among which edges rows stand, as a job's labels do."""
    if isinstance(way, BySearch):
        known = np.asarray(edges, np.int64)
        places = np.searchsorted(known, times)
        met = known[np.minimum(places, len(known) - 1)] == times
        return np.where(met, places, -places - 1)
    progressions = (way.granule,) if isinstance(way, ByDivision) else way.progressions
    return np.asarray(np.max([_last_of(p, times) for p in progressions], axis=0), np.int64)


def _last_of(progression: Progression, times: Int64Array) -> Int64Array:
    """Find the last time of a progression that is not after each row's."""
    return times - np.mod(times - progression.phase, progression.step)
