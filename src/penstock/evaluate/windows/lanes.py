"""Stores the partials of one predicate by slice and group, and merges them for each window.

Two strategies with the same answers: `DenseLane` keeps running prefixes and trees, so an evaluation costs O(1) or
O(log slices) per group; `ScanLane` merges every partial of the window, as the papers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from penstock.evaluate.components.numbers import Component, Planes, Values
from penstock.evaluate.components.states import State
from penstock.evaluate.components.user_states import UserState
from penstock.evaluate.components.value_tables import FrequencyTable
from penstock.evaluate.windows.frequency_index import FrequencyIndex
from penstock.evaluate.windows.growth import UNBOUNDED, Growth
from penstock.evaluate.windows.held_cells import HeldCells
from penstock.evaluate.windows.lazy_state_tree import LazyStateTree
from penstock.evaluate.windows.partials import (
    Distinct,
    Merged,
    Order,
    Partials,
    compact,
    concatenate,
    fill_empty,
    join_planes,
    no_partials,
)
from penstock.evaluate.windows.prefix_sums import PrefixSums
from penstock.evaluate.windows.scan import MOST_CELLS, ScanLane
from penstock.evaluate.windows.segment_tree import SegmentTree
from penstock.evaluate.windows.subtract_on_evict import SubtractOnEvict
from penstock.evaluate.windows.value_pool import ValuePool
from penstock.model.arrays import Int64Array

__all__ = ["UNBOUNDED", "DenseLane", "Growth", "Lane", "Merged", "ScanLane"]


class Lane(Protocol):
    """The partials of one predicate of one grouping, by slice label (the slice's start) and group."""

    components: tuple[Component, ...]  # the first counts rows
    operations: int  # merges of partials so far, as K06 counts final operations

    def add(
        self, labels: Int64Array, groups: Int64Array, values: Sequence[Values], distinct: Distinct | None = None
    ) -> None:
        """Take partials in any order; those of one label and group combine. ``distinct`` are their labels, if known."""

    def evaluate(
        self,
        starts: Int64Array,
        ends: Int64Array,
        *,
        keep_empty: bool = False,
        ranks: Int64Array | None = None,
        wanted: Sequence[Component] | None = None,
    ) -> Merged:
        """Merge for each evaluation all partials with start <= label < end, group by group, in order of their ranks.

        What is not ``wanted`` is left out; None: everything is.
        """

    def expire(self, before: int) -> None:
        """Forget labels before a time; they are never asked for again."""

    def reopen(self, since: int) -> None:
        """Take labels from a time on again: somebody new needs them, and none of them came yet."""

    def hold(self, components: Sequence[Component]) -> Lane:
        """Return a lane with just these components, rows first; what is stored holds nothing of the new ones."""

    def groups(self) -> Int64Array:
        """Return the groups that the lane may hold something of."""

    def renumber(self, moved: Int64Array) -> None:
        """Take groups' new numbers, in the same order as the old ones."""

    @property
    def cells(self) -> int:
        """Return how many cells the lane stores per component."""

    @property
    def state_bytes(self) -> int:
        """Return about how much memory frequency tables, sketches and other states of the lane take."""

    @property
    def nbytes(self) -> int:
        """Return about how much memory the lane takes in all."""


class Structure(Protocol):
    """One component of a dense lane, as an array of slices by columns that answers stretches of slices."""

    def place(self, rows: Int64Array, slices: int, columns: int) -> None:
        """Make room for slices and columns; the slice stored as i becomes ``rows[i]``."""

    def add(self, rows: Int64Array, columns: Int64Array, planes: Planes) -> None:
        """Combine values into (slice, column) pairs, which are distinct unless it takes repeated ones."""

    def merge(self, lo: Int64Array, hi: Int64Array) -> tuple[Planes, int]:
        """Return the values of slices lo … hi - 1, [evaluation, column], and the operations per column."""

    def keep(self, first: int, columns: Int64Array) -> None:
        """Forget the slices before ``first`` and all but the given columns."""

    def cells(self) -> Planes:
        """Return what each slice holds, [slice, column]."""

    @property
    def nbytes(self) -> int:
        """Return about how much memory it takes."""

    def bytes_with(self, slices: int, columns: int) -> int:
        """Return about how much memory it will take at least with so many slices and columns, or takes now."""


class DenseLane:
    """A lane of arrays [slice, column]: prefixes for what can be subtracted, trees for what can only be combined.

    ``operations`` counts, per evaluation and column, one subtraction and the tree nodes combined.
    """

    def __init__(self, components: Sequence[Component], growth: Growth = UNBOUNDED) -> None:
        """Begin without partials; the first component counts rows. ``growth`` says what arrays may have to spare."""
        self.components, self.growth = tuple(components), growth
        self.operations = 0
        self._empty()
        self._horizon: int | None = None
        self._ordered: tuple[Int64Array | None, Int64Array, Order] | None = None  # ranks, groups, and their order

    def _empty(self) -> None:
        """Hold no partials."""
        self._structures = [_structure_for(c, self.growth) for c in self.components]
        self._labels = np.empty(0, np.int64)  # ascending, one per stored slice
        self._columns = _Columns()
        self._pending: list[tuple[Partials, Distinct]] = []

    def add(
        self, labels: Int64Array, groups: Int64Array, values: Sequence[Values], distinct: Distinct | None = None
    ) -> None:
        """Take partials in any order; those of one label and group combine."""
        planes = tuple(c.planes_of(v) for c, v in zip(self.components, values, strict=True))
        self.add_partials(Partials(labels, groups, planes), distinct)

    def add_partials(self, partials: Partials, distinct: Distinct | None = None) -> None:
        """Take partials as flat rows."""
        distinct = Distinct.of(partials.labels) if distinct is None else distinct
        partials, distinct = self._not_expired(partials, distinct)
        if len(partials):
            self._columns.assign(partials.groups)
            self._pending.append((partials, distinct))

    def _not_expired(self, partials: Partials, distinct: Distinct) -> tuple[Partials, Distinct]:
        """Leave out the partials before the time from which on they are asked for."""
        if self._horizon is None or not len(partials) or distinct.labels[0] >= self._horizon:
            return partials, distinct
        kept = partials.labels >= self._horizon
        return partials.take(kept), Distinct.of(partials.labels[kept])

    def evaluate(
        self,
        starts: Int64Array,
        ends: Int64Array,
        *,
        keep_empty: bool = False,
        ranks: Int64Array | None = None,
        wanted: Sequence[Component] | None = None,
    ) -> Merged:
        """Merge for each evaluation all partials with start <= label < end, group by group, in order of their ranks."""
        self._settle()
        lo = self._labels.searchsorted(starts)
        hi = np.maximum(lo, self._labels.searchsorted(ends))
        portion = max(1, MOST_CELLS // max(1, len(self._columns)))
        order = self._in_order(ranks)
        edges = range(0, max(1, len(lo)), portion)
        asked = _Asked(
            self.components if wanted is None else tuple(wanted), order, empty=keep_empty and len(order) == 1
        )
        parts = [self._merge(i, lo[i : i + portion], hi[i : i + portion], asked) for i in edges]
        evaluation, group, planes = parts[0]
        if len(parts) > 1:
            evaluation, group = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
            planes = join_planes([part[2] for part in parts])
        values = tuple(c.values_from(p) for c, p in zip(asked.components, planes, strict=True))
        merged = Merged(evaluation, group, values)
        return fill_empty(asked.components, merged, len(starts)) if keep_empty else merged

    def _in_order(self, ranks: Int64Array | None) -> Order:
        """Return the columns in order of their groups' ranks; as long as neither changes, the order stays."""
        groups, known = self._columns.groups, self._ordered
        if known is None or known[0] is not ranks or known[1] is not groups:
            known = self._ordered = ranks, groups, _order(groups if ranks is None else ranks[groups])
        return known[2]

    def expire(self, before: int) -> None:
        """Forget labels before a time; they leave the arrays once they are half of them, so copying is amortised.

        Where nothing is in the arrays yet, as after a restart, what is forgotten never gets there.
        """
        self._horizon = before if self._horizon is None else max(before, self._horizon)
        if not len(self._labels) and self._pending and self._pending[0][1].labels[0] < self._horizon:
            left = [self._not_expired(*one) for one in self._pending]
            self._pending, self._columns = [one for one in left if len(one[0])], _Columns()
            for partials, _ in self._pending:
                self._columns.assign(partials.groups)
            return
        self._settle()
        first = int(np.searchsorted(self._labels, self._horizon))
        if self.growth.waits(first, len(self._labels)):
            return
        (rows,), _ = self._structures[0].merge(np.array([first]), np.array([len(self._labels)]))
        alive = np.flatnonzero(rows[0] > 0)
        for structure in self._structures:
            structure.keep(first, alive)
        self._labels = self._labels[first:].copy()
        self._columns = _Columns(self._columns.groups[alive])

    def reopen(self, since: int) -> None:
        """Take labels from a time on again: somebody new needs them, and none of them came yet."""
        if self._horizon is not None:
            self._horizon = min(since, self._horizon)

    def hold(self, components: Sequence[Component]) -> DenseLane:
        """Keep just these components, rows first; what is stored holds nothing of the new ones."""
        self._settle()
        known = dict(zip(self.components, self._structures, strict=True))
        self._structures = [known.get(c) or self._blank(c) for c in components]
        self.components = tuple(components)
        return self

    def _blank(self, component: Component) -> Structure:
        """Make room for a component of which nothing is stored."""
        structure = _structure_for(component, self.growth)
        structure.place(np.empty(0, np.int64), len(self._labels), len(self._columns))
        return structure

    @property
    def state_bytes(self) -> int:
        """Return about how much memory states take."""
        return sum(
            structure.nbytes for structure in self._structures if isinstance(structure, LazyStateTree | FrequencyIndex)
        )

    @property
    def nbytes(self) -> int:
        """Return about how much memory the lane takes, with what has arrived but is not yet in the arrays.

        The arrays are counted as they will be with it, and with the next slice: a row for all columns comes at once.
        """
        arrived = sum(partials.nbytes for partials, _ in list(self._pending))
        slices, columns = len(self._all_labels()), len(self._columns)
        more = slices + 1 if slices else 0
        held = sum(structure.bytes_with(more, columns) for structure in list(self._structures))
        return arrived + int(self._labels.nbytes) + held

    @property
    def cells(self) -> int:
        """Return slices times columns, with what has arrived but is not yet in the arrays."""
        return len(self._all_labels()) * len(self._columns)

    def exceeds(self, cells: int) -> bool:
        """Tell whether there are more cells than so many; labels are told apart only if it may be."""
        most = len(self._labels) + sum(len(distinct.labels) for _, distinct in self._pending)
        return most * len(self._columns) > cells and self.cells > cells

    def groups(self) -> Int64Array:
        """Return the groups that have a column."""
        return self._columns.groups

    def renumber(self, moved: Int64Array) -> None:
        """Take groups' new numbers, in the same order as the old ones."""
        self._settle()
        self._columns = _Columns(moved[self._columns.groups])

    def of_group(self, group: int) -> Partials:
        """Return what is stored of one group."""
        self._settle()
        cells = tuple(structure.cells() for structure in self._structures)
        place = np.flatnonzero(self._columns.groups == group)
        if not len(place):
            return no_partials(self.components)
        rows = np.flatnonzero(cells[0][0][:, place[0]] > 0)
        planes = tuple(tuple(plane[rows, place[0]] for plane in part) for part in cells)
        return Partials(self._labels[rows], np.full(len(rows), group, np.int64), planes)

    def to_scan(self) -> ScanLane:
        """Return a lane with the same partials that scans them; arrivals never pass through the arrays."""
        lane = ScanLane(self.components)
        lane.operations = self.operations
        if self._horizon is not None:
            lane.expire(self._horizon)
        cells = tuple(structure.cells() for structure in self._structures)
        row, column = np.nonzero(cells[0][0] > 0)
        planes = tuple(tuple(plane[row, column] for plane in part) for part in cells)
        lane.add_partials(Partials(self._labels[row], self._columns.groups[column], planes))
        for partials, _ in self._pending:
            lane.add_partials(partials)
        return lane

    def _all_labels(self) -> Int64Array:
        """Return the labels of what is stored and of what has arrived, in order."""
        if not self._pending:
            return self._labels
        held = [distinct.held() for _, distinct in self._pending]
        if len(held) == 1 and (not len(self._labels) or held[0][0] >= self._labels[-1]):
            known = int(len(self._labels) > 0 and held[0][0] == self._labels[-1])  # the last slice may grow on
            return np.concatenate([self._labels, held[0][known:]])
        return np.unique(np.concatenate([self._labels, *held]))

    def _settle(self) -> None:
        """Bring arrivals into the arrays."""
        if not self._pending:
            return
        arrived, labels = self._pending, self._all_labels()
        moved = labels.searchsorted(self._labels)
        self._pending, self._labels = [], labels
        each = [labels.searchsorted(distinct.labels)[distinct.places] for _, distinct in arrived]
        rows = each[0] if len(each) == 1 else np.concatenate(each)
        whole = concatenate([partials for partials, _ in arrived])
        parts = list(zip(self.components, self._structures, whole.planes, strict=True))
        for repeated in (True, False):  # what has to be combined before it is added, and what need not
            some = [part for part in parts if _takes_repeated(*part[:2]) == repeated]
            if not some:
                continue
            partials = Partials(rows, whole.groups, tuple(planes for *_, planes in some))
            if not repeated:
                partials = compact([component for component, *_ in some], partials)
            columns = self._columns.of(partials.groups)
            for (_, structure, _), planes in zip(some, partials.planes, strict=True):
                structure.place(moved, len(labels), len(self._columns))
                structure.add(partials.labels, columns, planes)

    def _merge(
        self, at: int, lo: Int64Array, hi: Int64Array, asked: _Asked
    ) -> tuple[Int64Array, Int64Array, tuple[Planes, ...]]:
        """Answer consecutive evaluations, numbered from ``at``, for all columns, given in their order, at once."""
        (rows,), operations = self._structures[0].merge(lo, hi)
        order = asked.order
        if asked.empty:
            evaluation, place = np.arange(len(lo)), np.zeros(len(lo), np.int64)
        else:
            evaluation, place = np.nonzero((rows > 0)[:, order])
        column = order[place]
        cells = HeldCells(lo, hi, evaluation, column)
        parts: list[Planes] = [cells.pick((rows,))]
        nodes, structures = 0, dict(zip(self.components, self._structures, strict=True))
        for component in asked.components[1:]:
            structure = structures[component]
            if isinstance(structure, PrefixSums):
                parts.append(structure.read(cells)[0])
                continue
            merged, nodes = structure.merge(lo, hi)
            parts.append(cells.pick(merged))
        self.operations += (operations + nodes) * len(order)
        return evaluation + at, self._columns.groups[column], tuple(parts)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What evaluations of a dense lane return: components, columns in their order, and windows without rows or not."""

    components: tuple[Component, ...]
    order: Order
    empty: bool  # there is only one column, and every window is answered


class _Columns:
    """Which column of the arrays holds which group, in order of arrival."""

    def __init__(self, groups: Int64Array | None = None) -> None:
        """Begin with some groups, or none."""
        self.groups = np.empty(0, np.int64) if groups is None else groups
        self._lookup = np.full(int(self.groups.max(initial=-1)) + 1, -1, np.int64)
        self._lookup[self.groups] = np.arange(len(self.groups))

    def __len__(self) -> int:
        """Count the columns."""
        return len(self.groups)

    def assign(self, groups: Int64Array) -> None:
        """Give each group that is new a column."""
        beyond = int(groups.max()) + 1 - len(self._lookup)
        if beyond > 0:
            room = max(beyond, len(self._lookup))
            self._lookup = np.concatenate([self._lookup, np.full(room, -1, np.int64)])
        unknown = self._lookup[groups] < 0
        if not unknown.any():
            return
        new = np.unique(groups[unknown])
        self._lookup[new] = len(self.groups) + np.arange(len(new))
        self.groups = np.concatenate([self.groups, new])

    def of(self, groups: Int64Array) -> Int64Array:
        """Return the columns of groups that have one."""
        return self._lookup[groups]


def _order(ranks: Int64Array) -> Order:
    """Sort distinct numbers, in one pass where they are not far fewer than the greatest of them."""
    most = int(ranks.max(initial=-1)) + 1
    if most > 8 * len(ranks):
        return np.argsort(ranks)
    places = np.full(most, -1, np.int64)
    places[ranks] = np.arange(len(ranks))
    return places[places >= 0]


def _takes_repeated(component: Component, structure: Structure) -> bool:
    """Tell whether a structure takes several values of one slice and column at once."""
    return component.scatters or isinstance(structure, FrequencyIndex)


def _structure_for(component: Component, growth: Growth) -> Structure:
    """Choose how a component answers stretches of slices."""
    match component:
        case FrequencyTable():
            return FrequencyIndex(component, None if component.of_numbers else ValuePool())
        case UserState() if component.slides:
            return SubtractOnEvict(component)
        case State():
            return LazyStateTree(component)
    if component.invertible:
        return PrefixSums(component, len(component.planes), growth)
    return SegmentTree(component, growth)
