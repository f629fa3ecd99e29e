"""Aggregates the rows that a batch's job has sent into partials, as Spark's job would have.

For a small batch, or one whose groups are about as many as its rows, this costs less than a shuffle; and what Spark can
only aggregate object by object (frequency tables, sketches) is made of sorted arrays here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Component
from penstock.evaluate.components.row_runs import NumberedRuns, RowColumn, RowRuns, masked
from penstock.evaluate.components.value_tables import plain_zero
from penstock.kernel.left_out import LeftOut
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.sorting import stable_order
from penstock.share.conditions.fragments import takes_any
from penstock.share.layout import Layout, Member
from penstock.share.partial_schema import (
    BASE_COUNT,
    CELL,
    CORRECTED_COUNT,
    DOUBTED,
    FIRST_TIME,
    GROUPING,
    LABEL,
    LAST_TIME,
    LATE_COUNT,
    ROW_COUNT,
    SHED_COUNT,
    SIGNED_COUNT,
    TOUCHED_COUNT,
    component_name,
    key_name,
    tried_name,
)
from penstock.share.row_schema import (
    BASE_FLAG,
    DOUBTED_FLAG,
    REVISED_FLAG,
    SHED_FLAG,
    SIGN,
    TIME,
    RowSchema,
    failed_name,
    label_name,
)
from penstock.store.invalid import FLOOR

__all__ = ["LeftOut", "RowAggregation"]

SignaturesOf = Callable[[Member, Int64Array], Int64Array]  # of cells of a grouping: words, [cell, word]
MOST_CODES: Final = 1 << 62
CODES_A_ROW: Final = 2  # up to so many that are possible, runs are numbered by a table of all of them


class RowAggregation:
    """Aggregates the rows of one layout, batch by batch."""

    def __init__(self, layout: Layout, schema: RowSchema, signatures: SignaturesOf) -> None:
        """Take a layout, where its rows have what, and who tells the signatures of cells."""
        self.layout, self.schema, self._signatures = layout, schema, signatures
        numbers = {component: number for number, component in enumerate(layout.components)}
        self._made = {  # grouping → the components that have columns of their own, with the conditions that need them
            m.number: [
                (numbers[c], c, users)
                for c, users in zip(m.grouping.components, m.grouping.users, strict=True)
                if schema.arguments[numbers[c]]
            ]
            for m in layout.members
        }
        self._signed = any(m.signed for m in layout.members)

    def partials(self, rows: pa.Table, watermark_us: int, ahead_us: int, left_out: LeftOut | None = None) -> pa.Table:
        """Aggregate rows; ``watermark_us`` tells late ones, from ``ahead_us`` on they are not valid.

        Those that were ``left_out`` are counted; the first and the last of them are there.
        """
        sent = _SentRows(rows, watermark_us, max(watermark_us + 1, ahead_us))
        parts = []
        for member in self.layout.members:
            for name in self.schema.cells.get(member.number, (None,)):
                cells = sent.numbers(name) if name is not None else sent.uncelled(carries_all=member.carrier)
                parts.append(self._part(sent, member, cells))
        found = _stacked(parts or [self._unasked(sent)])
        return found if left_out is None else left_out.counted_in(found)

    def _unasked(self, sent: _SentRows) -> dict[str, pa.Array]:
        """Count the rows of a batch that nobody asks for."""
        label = sent.column(label_name(0))
        runs = _runs([label.ranks], np.arange(len(sent.valid)))
        return {LABEL: label.array.take(pa.array(runs.firsts)), **self._statistics(sent, runs)}

    def _part(self, sent: _SentRows, member: Member, cells: Int64Array) -> dict[str, pa.Array]:
        """Aggregate the rows of one part of a grouping."""
        label = sent.column(label_name(member.tree))
        keys = [sent.key(self.schema.keys[key]) for key in member.grouping.keys]
        asked = cells > 0 if member.signed else sent.valid  # of others, nobody has asked for keys
        codes = [label.ranks, _small(cells) if member.signed else None, *(np.where(asked, k.codes, 0) for k in keys)]
        runs = _runs([c for c in codes if c is not None], np.flatnonzero(cells >= 0))
        firsts = runs.firsts
        found = {LABEL: label.array.take(pa.array(firsts))}
        if len(self.layout.members) > 1:
            found[GROUPING] = pa.array(np.full(len(runs), member.number, np.int32))
        if self._signed:
            found[CELL] = pa.array(cells[firsts])
        for slot, type_ in enumerate(self.layout.key_types):
            name = key_name(slot)
            if slot in member.slots:
                place = member.slots.index(slot)
                found[name] = keys[place].values.take(pa.array(np.where(asked, keys[place].codes, 0)[firsts]))
            else:
                found[name] = pa.nulls(len(runs), type_)
        found |= self._statistics(sent, runs)
        words = list(self._signatures(member, cells[firsts]).T) if member.signed else []
        for number, component, users in self._made[member.number]:
            columns = [sent.column(name) for name in self.schema.arguments[number]]
            made = _aggregated(component, columns, runs, takes_any(words, users) if words else None)
            found |= {component_name(number, part): array for part, array in enumerate(made)}
        return found

    def _statistics(self, sent: _SentRows, runs: RowRuns) -> dict[str, pa.Array]:
        """Count what every batch must know of itself, as :meth:`Writer.statistics` has Spark count it."""
        time, layout = sent.column(TIME), self.layout
        held = runs.held(time)
        found = {ROW_COUNT: runs.lengths, LAST_TIME: runs.best(sent.times(np.iinfo(np.int64).min), np.maximum)}
        base = sent.flags(BASE_FLAG) if layout.plan.joins else None
        once = sent.late if base is None else sent.late & base
        if layout.marks_late is None:
            found[FIRST_TIME] = runs.best(sent.times(np.iinfo(np.int64).max), np.minimum)
            found[LATE_COUNT] = runs.count(once)
            if layout.revising or layout.plan.joins or self.schema.copied:
                found[TOUCHED_COUNT] = runs.count(sent.late)
        if layout.revising:
            found[CORRECTED_COUNT] = runs.count(once & sent.flags(REVISED_FLAG))
        if layout.samples:
            shed = sent.valid & sent.flags(SHED_FLAG)
            found[SHED_COUNT] = runs.count(shed if base is None else shed & base)
            found[SIGNED_COUNT] = runs.total(sent.numbers(SIGN))
        if base is not None:
            found[BASE_COUNT] = runs.count(base)
        for place in range(self.schema.tried):
            found[tried_name(place)] = runs.count(sent.valid & sent.flags(failed_name(place)))
        if sent.has(DOUBTED_FLAG):
            found[DOUBTED] = runs.count(sent.valid & sent.flags(DOUBTED_FLAG))
        times = (FIRST_TIME, LAST_TIME)
        return {name: masked(values, held if name in times else None) for name, values in found.items()}


class _SentRows:
    """The rows of one batch; what several groupings need of them is computed once."""

    def __init__(self, rows: pa.Table, watermark_us: int, ahead_us: int) -> None:
        """Take rows as they were sent."""
        self._rows = rows
        self._columns: dict[str, RowColumn] = {}
        self._keys: dict[str, _Key] = {}
        time = self.column(TIME)
        present = np.ones(rows.num_rows, np.bool_) if time.valid is None else time.valid
        self.late: BoolArray = present & (time.numbers < watermark_us)
        self.valid: BoolArray = present & (time.numbers < ahead_us) & (time.numbers > FLOOR)

    def column(self, name: str) -> RowColumn:
        """Return a column."""
        if name not in self._columns:
            self._columns[name] = RowColumn(self._rows[name])
        return self._columns[name]

    def has(self, name: str) -> bool:
        """Tell whether rows have a column."""
        return name in self._rows.column_names

    def key(self, name: str) -> _Key:
        """Return a column as a key."""
        if name not in self._keys:
            self._keys[name] = _Key(self.column(name).array)
        return self._keys[name]

    def numbers(self, name: str) -> Int64Array:
        """Read a column of whole numbers."""
        return np.asarray(self.column(name).numbers, np.int64)

    def flags(self, name: str) -> BoolArray:
        """Read a column of Booleans."""
        return self.column(name).flags

    def times(self, instead: int) -> Int64Array:
        """Read the times of rows, with something in place of those that are missing."""
        time = self.column(TIME)
        return time.numbers if time.valid is None else np.where(time.valid, time.numbers, instead)

    def uncelled(self, *, carries_all: bool) -> Int64Array:
        """Number the rows of a grouping that takes all; those that are not valid belong to one that carries all."""
        return np.zeros(len(self.valid), np.int64) if carries_all else np.where(self.valid, 0, -1)


class _Key:
    """A key of rows: numbers of its values, and the values by these numbers, NULL first."""

    def __init__(self, array: pa.Array) -> None:
        """Take a column."""
        self._array = array

    @cached_property
    def _encoded(self) -> pa.DictionaryArray:
        """Number the values; NaN is one value, and −0.0 is 0.0."""
        raw = self._array.cast(pa.binary()) if pa.types.is_string(self._array.type) else plain_zero(self._array)
        return raw.dictionary_encode()

    @cached_property
    def codes(self) -> Int64Array:
        """Return the number of each row's value, 0 for NULL."""
        indices = self._encoded.indices
        return np.asarray(indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), np.int64) + 1

    @cached_property
    def values(self) -> pa.Array:
        """Return the values, NULL first."""
        listed, type_ = self._encoded.dictionary, self._array.type
        listed = listed.view(type_) if pa.types.is_string(type_) else listed
        return pa.concat_arrays([pa.nulls(1, type_), listed])


def _aggregated(
    component: Component, columns: Sequence[RowColumn], runs: RowRuns, asked: BoolArray | None
) -> list[pa.Array]:
    """Make the partial columns of a component; a state that nobody asks for is not made, and NULL."""
    if asked is None or not component.is_state or asked.all():
        return component.aggregate(columns, runs)
    asked[:1] |= not asked.any()  # one is made in any case: it has the columns' types
    places = pa.array(np.cumsum(asked) - 1, mask=~asked)
    return [array.take(places) for array in component.aggregate(columns, runs.only(asked))]


def _small(cells: Int64Array) -> Int64Array:
    """Number cells from 0; few are left as they are."""
    if len(cells) and int(cells.max()) < 4 * len(cells) + 1_000:
        return np.maximum(cells, 0)
    encoded = pa.array(cells).dictionary_encode()
    listed = encoded.dictionary.to_numpy()
    places = np.empty(len(listed), np.int64)
    places[np.argsort(listed)] = np.arange(len(listed))
    return np.asarray(places[encoded.indices.to_numpy()], np.int64)


def _runs(codes: Sequence[Int64Array], rows: Int64Array) -> RowRuns:
    """Part rows by several codes, the first above the others, into runs of equal ones, in the order of the codes."""
    combined, size = codes[0][rows], int(codes[0].max(initial=0)) + 1
    for more in codes[1:]:
        digits = int(more.max(initial=0)) + 1
        if size * digits >= MOST_CODES:
            distinct, combined = np.unique(combined, return_inverse=True)
            size = max(1, len(distinct))
        combined, size = combined * digits + more[rows], size * digits
    if size <= CODES_A_ROW * len(rows):
        return NumberedRuns(rows, combined, size)
    place = stable_order(combined, size)
    ordered = combined[place]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(rows) else np.empty(0, np.int64)
    return RowRuns(rows[place], starts.astype(np.int64))


def _stacked(parts: Sequence[Mapping[str, pa.Array]]) -> pa.Table:
    """Put the partials of all groupings one after the other; a column that a grouping has not is NULL there."""
    types = {name: array.type for part in parts for name, array in part.items()}
    columns = {}
    for name, type_ in types.items():
        chunks = [part[name] if name in part else pa.nulls(len(part[LABEL]), type_) for part in parts]
        columns[name] = pa.chunked_array(chunks, type_)
    return pa.table(columns)
