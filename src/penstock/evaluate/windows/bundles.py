"""Keeps the partials of many predicates without keys as columns of one array, and answers them together.

A predicate alone would be a lane of one column, and a thousand of them a thousand small steps for every batch. Here
each is a column of one lane, so that a batch is added, and all due windows are merged, in a few steps over arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from penstock.evaluate.components.numbers import Component, Values, pick
from penstock.evaluate.windows.growth import UNBOUNDED, Growth
from penstock.evaluate.windows.lanes import DenseLane
from penstock.evaluate.windows.partials import Distinct, Merged, Partials, distinct_pairs, fill_empty
from penstock.evaluate.windows.scan import ScanLane
from penstock.model.arrays import Int64Array

ANY_TIME: Final = -(1 << 62)
_NUMBERS: Final[Iterator[int]] = itertools.count()


class Bundle:
    """The columns of predicates that need the same components."""

    def __init__(self, components: Sequence[Component], growth: Growth = UNBOUNDED) -> None:
        """Begin without columns; ``growth`` says how much arrays may have to spare."""
        self.components = tuple(components)
        self.number = next(_NUMBERS)  # no other bundle has it
        self.lane = DenseLane(components, growth)
        self._columns: dict[int, ColumnLane] = {}
        self._next = 0  # numbers of columns are never used again: what a dropped one holds goes when it expires

    def open(self) -> ColumnLane:
        """Make a new column; the past may be put into it, so labels are taken from any time on."""
        self.lane.reopen(ANY_TIME)
        column = ColumnLane(self, self._next)
        self._columns[self._next] = column
        self._next += 1
        return column

    def close(self, column: ColumnLane) -> None:
        """Forget a column."""
        self._columns.pop(column.number, None)

    @property
    def width(self) -> int:
        """Return how many columns there are, at least one."""
        return max(1, len(self._columns))

    @property
    def is_empty(self) -> bool:
        """Tell whether no column is left."""
        return not self._columns

    def add(self, labels: Int64Array, columns: Int64Array, values: Sequence[Values]) -> None:
        """Take partials of columns by number."""
        self.lane.add(labels, columns, values)

    def expire(self) -> None:
        """Forget labels that no column will be asked for."""
        horizons = [column.horizon for column in self._columns.values()]
        if horizons and None not in horizons:
            self.lane.expire(min(h for h in horizons if h is not None))

    def evaluate(
        self,
        starts: Int64Array,
        ends: Int64Array,
        columns: Int64Array,
        *,
        keep_empty: bool,
        wanted: Sequence[Component] | None = None,
    ) -> Merged:
        """Merge for each evaluation the partials of its own column; distinct windows are merged once for all."""
        place, chosen = distinct_pairs(ends, ends - starts)
        before = self.lane.operations
        merged = self.lane.evaluate(starts[chosen], ends[chosen], wanted=wanted)
        spent, width = self.lane.operations - before, max(1, len(self.lane.groups()))
        self.lane.operations = before + round(spent / max(1, len(chosen) * width) * len(starts))
        asked = place * self._next + columns
        known = merged.evaluation * self._next + merged.group
        at = np.minimum(np.searchsorted(known, asked), max(0, len(known) - 1))
        held = known[at] == asked if len(known) else np.zeros(len(asked), np.bool_)
        evaluation = np.flatnonzero(held)
        values = tuple(pick(v, at[held]) for v in merged.values)
        found = Merged(evaluation, np.zeros(len(evaluation), np.int64), values)
        return fill_empty(wanted or self.components, found, len(starts)) if keep_empty else found

    def dissolve(self) -> dict[ColumnLane, ScanLane]:
        """Return for each column a lane of its own that scans its partials: too many cells would be stored here."""
        whole, found = self.lane.to_scan().stored(), {}
        for column in list(self._columns.values()):
            found[column] = ScanLane(self.components)
            column.leave_for(found[column], whole.take(whole.groups == column.number))
        return found


class ColumnLane:
    """The lane of one predicate without keys: a column of a bundle."""

    def __init__(self, bundle: Bundle, number: int) -> None:
        """Stand for a column of a bundle."""
        self.bundle, self.number = bundle, number
        self.components = bundle.components
        self.horizon: int | None = None
        self.operations = 0  # the bundle counts them for all

    def add(
        self, labels: Int64Array, groups: Int64Array, values: Sequence[Values], distinct: Distinct | None = None
    ) -> None:
        """Take partials in any order."""
        self.bundle.add(labels, np.full(len(labels), self.number, np.int64), values)

    def evaluate(
        self,
        starts: Int64Array,
        ends: Int64Array,
        *,
        keep_empty: bool = False,
        ranks: Int64Array | None = None,
        wanted: Sequence[Component] | None = None,
    ) -> Merged:
        """Merge for each evaluation all partials with start <= label < end; there is one group."""
        columns = np.full(len(starts), self.number, np.int64)
        return self.bundle.evaluate(starts, ends, columns, keep_empty=keep_empty, wanted=wanted)

    def expire(self, before: int) -> None:
        """Note before when nothing will be asked for; the bundle forgets what no column needs."""
        self.horizon = before if self.horizon is None else max(before, self.horizon)

    def reopen(self, since: int) -> None:
        """Take labels from a time on again: somebody new needs them, and none of them came yet."""
        self.horizon = None if self.horizon is None else min(since, self.horizon)
        self.bundle.lane.reopen(since)

    def groups(self) -> Int64Array:
        """Return the one group."""
        return np.zeros(1, np.int64)

    def renumber(self, moved: Int64Array) -> None:
        """Keep the one group's number."""

    def hold(self, components: Sequence[Component]) -> DenseLane:
        """Return a lane of its own with these components: all columns of a bundle have the same."""
        lane = DenseLane(self.components, self.bundle.lane.growth)
        self.leave_for(lane, self.bundle.lane.of_group(self.number))
        return lane.hold(components)

    def leave_for(self, lane: DenseLane | ScanLane, held: Partials) -> None:
        """Give a lane of its own what the column holds."""
        if self.horizon is not None:
            lane.expire(self.horizon)
        lane.add_partials(Partials(held.labels, np.zeros(len(held), np.int64), held.planes))
        self.bundle.close(self)

    @property
    def cells(self) -> int:
        """Return how many cells the bundle stores per component."""
        return self.bundle.lane.cells

    @property
    def state_bytes(self) -> int:
        """Return nothing: lanes with states are no columns of a bundle."""
        return 0

    @property
    def nbytes(self) -> int:
        """Return the column's part of the memory that the bundle takes."""
        return self.bundle.lane.nbytes // self.bundle.width
