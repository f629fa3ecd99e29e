"""Tables of partials in, lanes of the kernel out: the stored partials of one stream, as evaluations read them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.evaluate.bundles import Bundle, ColumnLane
from penstock.evaluate.components import ROWS, Component, Values, column_count, pick, values_of
from penstock.evaluate.groups import Groups, KeyValues
from penstock.evaluate.lanes import DenseLane, Lane, ScanLane
from penstock.evaluate.partials import Distinct
from penstock.evaluate.typed import Definition
from penstock.share.feeding import Fed
from penstock.share.fragments import Words, taken_pairs, takes
from penstock.share.layout import Layout, Member
from penstock.share.plan import LaneKey, Tree
from penstock.store.arrived import Arrived, by_grouping, keys_told_apart, statistics
from penstock.store.filling import Filling

Kernel = Literal["fast", "scan"]
Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

FEW_GROUPS: Final = 1_000  # up to so many groups of one grouping are never forgotten
MOST_PAIRS: Final = 8_000_000  # of rows and conditions, looked at in one go
MOST_CELLS: Final = 48_000_000  # of one dense lane; beyond, its partials are scanned instead


@dataclass(frozen=True, slots=True)
class _Batch:
    """What all groupings of a batch have in common."""

    layout: Layout
    edges: Mapping[int, Sequence[int]]
    keys: Mapping[int, KeyValues]  # by slot: the values that key columns have codes of
    rows: int


@dataclass(frozen=True, slots=True)
class _Added:
    """A batch's partials of one grouping, as arrays."""

    labels: Int64Array
    distinct: Distinct  # labels
    values: Mapping[Component, Values]
    words: Words
    late: BoolArray | None  # holds late rows; None: nobody asks
    keys: Mapping[int, KeyValues]


class Synopsis:
    """All lanes of one stream."""

    def __init__(self, kernel: Kernel = "fast", *, in_driver: bool = True) -> None:
        """Start empty; ``spread`` are the groupings that the driver's synopsis holds nothing of, and the others all."""
        self.kernel, self.in_driver = kernel, in_driver
        self.spread: frozenset[tuple[str, tuple[str, ...]]] = frozenset()
        self.lanes: dict[LaneKey, Lane] = {}
        self.partial_operations = 0  # rows folded into partials, each tree's apart (Krishnamurthy et al. 2006, §3.1)
        self._retired_operations = 0
        self._members: dict[LaneKey, tuple[Definition, ...]] = {}  # the queries of each lane
        self._bundles: dict[tuple[str, tuple[Component, ...]], Bundle] = {}  # by tree and components
        self._groups: dict[tuple[str, tuple[str, ...]], Groups] = {}
        self.filling = Filling()
        self._home: dict[LaneKey, str] = {}  # lane → tree
        self._present: dict[str, Int64Array] = {}  # tree → slices that hold a row of the stream
        self._touched: dict[LaneKey, tuple[Int64Array, Int64Array]] = {}

    @property
    def final_operations(self) -> int:
        """Return how many partials were merged to answers."""
        bundles = sum(bundle.lane.operations for bundle in self._bundles.values())
        return self._retired_operations + bundles + sum(lane.operations for lane in self.lanes.values())

    @property
    def state_bytes(self) -> int:
        """Return about how much memory frequency tables, sketches and other states take."""
        return sum(lane.state_bytes for lane in list(self.lanes.values()))  # asked for while a batch may open lanes

    def groups(self, key: LaneKey) -> Groups:
        """Return the groups of a lane's grouping."""
        return self._groups[key.tree, key.keys]

    def most_groups(self, key: LaneKey) -> int:
        """Return how many groups a window of a lane has at the most."""
        return max(1, len(self._groups[key.tree, key.keys])) if key.keys else 1

    def group_count(self, grouping: tuple[str, tuple[str, ...]]) -> int:
        """Count the groups of a grouping that are known here."""
        return len(self._groups[grouping]) if grouping in self._groups else 0

    def keeps(self, key: LaneKey) -> bool:
        """Tell whether a lane's partials are here."""
        return ((key.tree, key.keys) in self.spread) != self.in_driver

    def let_go_of(self, grouping: tuple[str, tuple[str, ...]]) -> None:
        """Empty the lanes of a grouping that is kept elsewhere from now on."""
        self.spread |= {grouping}
        self._groups[grouping] = Groups(self._groups[grouping].types)
        for key in [key for key in self.lanes if (key.tree, key.keys) == grouping]:
            components = self.lanes[key].components
            self._close(self.lanes[key])
            self.lanes[key] = self._empty_lane(key, components)

    def presence(self, tree: str) -> Int64Array:
        """Return the slices of a tree that hold a row of the stream, in order."""
        return self._present.get(tree, np.empty(0, np.int64))

    def prepare(self, layout: Layout) -> None:
        """Open the lanes a plan needs and close those it has no use for."""
        wanted = {key: members for tree in layout.plan.trees for key, members in tree.lanes.items()}
        for tree in layout.plan.trees:
            for grouping in tree.groupings:
                self._groups.setdefault((tree.space, grouping.keys), Groups(grouping.key_types))
        for key in self.lanes.keys() - wanted.keys():
            self._close(self.lanes.pop(key))
        for name in [name for name, bundle in self._bundles.items() if bundle.is_empty]:
            self._retired_operations += self._bundles.pop(name).lane.operations
        self._move(layout)
        for key, members in wanted.items():
            if self._members.get(key) is not members:
                self._open(key, _components_of(members))
        self._members = wanted
        trees = {t.name for t in layout.plan.trees}
        kept = {(t.space, g.keys) for t in layout.plan.trees for g in t.groupings}
        self._groups = {k: g for k, g in self._groups.items() if k in kept}
        self._present = {k: p for k, p in self._present.items() if k in trees}
        self.filling.keep(trees)

    def _move(self, layout: Layout) -> None:
        """Note the tree of every lane; one that a lane moves to knows the slices of the one it comes from as well."""
        before, self._home = self._home, {key: tree.name for tree in layout.plan.trees for key in tree.lanes}
        moves = {(before[key], to) for key, to in self._home.items() if before.get(key, to) != to}
        for gone, to in sorted(move for move in moves if move[0] in self._present):
            self._note_presence(to, self._present[gone])

    def ingest(self, layout: Layout, partials: pa.Table, edges: Mapping[int, Sequence[int]]) -> Arrived:
        """Add a batch's partials to the lanes and tell what the batch held."""
        partials, keys = keys_told_apart(layout, partials)
        parted = by_grouping(partials, len(layout.members))
        arrived = statistics(layout, parted[0])
        self._touched = {}
        highest, batch = None, _Batch(layout, edges, keys, arrived.rows)
        for member, rows in zip(layout.members, parted, strict=bool(layout.members)):
            labels = self._add(batch, member, rows)
            if len(labels):
                highest = int(labels.max()) if highest is None else max(highest, int(labels.max()))
        return replace(arrived, highest=highest, touched=self._touched)

    def rebuild(self, layout: Layout, partials: pa.Table, edges: Mapping[int, Sequence[int]]) -> Arrived:
        """Put partials of the stream's whole history in place of what the layout's lanes hold."""
        for tree in layout.plan.trees:
            for key, members in tree.lanes.items():
                self._close(self.lanes[key])
                self._members.pop(key, None)
                self.lanes[key] = self._empty_lane(key, _components_of(members))
        return self.ingest(layout, partials, edges)

    def expire(self, floors: Mapping[LaneKey, int]) -> None:
        """Drop, lane by lane, the slices before the start of every window still to come."""
        for key, floor in floors.items():
            self.lanes[key].expire(floor)
        for bundle in self._bundles.values():
            bundle.expire()
        needed: dict[str, int] = {}
        for key, floor in floors.items():
            needed[self._home[key]] = min(floor, needed.get(self._home[key], floor))
        for tree in needed.keys() & self._present.keys():
            self._present[tree] = self._present[tree][np.searchsorted(self._present[tree], needed[tree]) :]

    def reopen(self, floors: Mapping[LaneKey, int]) -> None:
        """Take, lane by lane, slices from a time on that nobody needed until a new query came."""
        for key, floor in floors.items():
            self.lanes[key].reopen(floor)

    def forget_groups(self, needed: Container[tuple[str, tuple[str, ...]]]) -> None:
        """Forget groups of which nothing is stored, once they are many; ``needed`` are groupings others number by."""
        for grouping, groups in self._groups.items():
            if len(groups) < FEW_GROUPS or grouping in needed:
                continue
            lanes = [lane for key, lane in self.lanes.items() if (key.tree, key.keys) == grouping]
            alive = np.unique(np.concatenate([lane.groups() for lane in lanes]))
            if 2 * len(alive) < len(groups):
                moved = groups.keep(alive)
                for lane in lanes:
                    lane.renumber(moved)

    def _open(self, key: LaneKey, components: tuple[Component, ...]) -> None:
        """Make a lane, or let one hold what is needed from now on."""
        lane = self.lanes.get(key)
        if lane is None:
            self.lanes[key] = self._empty_lane(key, components)
        elif lane.components != components:
            self.lanes[key] = lane.hold(components)

    def _close(self, lane: Lane) -> None:
        """Let a lane go."""
        self._retired_operations += lane.operations
        if isinstance(lane, ColumnLane):
            lane.bundle.close(lane)

    def _empty_lane(self, key: LaneKey, components: tuple[Component, ...]) -> Lane:
        """Make a lane of the kernel's kind; predicates without keys are columns of one bundle."""
        if self.kernel == "scan":
            return ScanLane(components)
        if key.keys or any(component.is_state for component in components):
            return DenseLane(components)  # in a bundle, every window would merge the states of every predicate
        return self._bundles.setdefault((self._home[key], components), Bundle(components)).open()

    def _add(self, batch: _Batch, member: Member, rows: pa.Table) -> Int64Array:
        """Add one grouping's partials to the lane of each condition; return the slices touched."""
        layout = batch.layout
        rows = rows.filter(rows["label"].is_valid()) if rows["label"].null_count else rows
        tree = layout.plan.trees[member.tree]
        labels = _slice_starts(layout, member, rows, batch.edges)
        if member.carrier:
            base = rows["base"] if "base" in rows.column_names else rows["rows"]
            self._note_presence(tree.name, labels[base.to_numpy() > 0])
        if self._is_elsewhere(tree, member):  # what came here only counts the stream's rows
            return labels
        words = [rows[f"s{w}"].to_numpy() for w in range(member.grouping.words)] if member.signed else []
        taken = np.any([w != 0 for w in words], axis=0) if words else None
        if taken is not None and not taken.all():
            rows, labels = rows.filter(pa.array(taken)), labels[taken]
            words = [w[taken] for w in words]
        self.partial_operations += int(np.sum(rows["rows"].to_numpy(), dtype=np.int64))
        values = _read_components(layout, member, rows)
        late = rows["touched"].to_numpy() > 0 if layout.revising else None
        added = _Added(labels, Distinct.of(labels), values, words, late, batch.keys)
        if member.slots:
            counts = len(labels), len(added.distinct.labels), batch.rows
            self.filling.note((tree.name, member.grouping.keys), len(member.grouping.conditions), counts)
        for fed in member.feeds:
            self._add_fed(tree, member, fed, rows, added)
        return labels

    def _is_elsewhere(self, tree: Tree, member: Member) -> bool:
        """Tell whether all partials of a member are kept elsewhere."""
        return self.in_driver and all((tree.name, fed.grouping.keys) in self.spread for fed in member.feeds)

    def _add_fed(self, tree: Tree, member: Member, fed: Fed, rows: pa.Table, added: _Added) -> None:
        """Add partials to the lanes of a grouping, its own or finer ones; lanes combine what is one group to them."""
        if ((tree.name, fed.grouping.keys) in self.spread) == self.in_driver:
            return
        labels, values, words, late = added.labels, added.values, added.words, added.late
        groups = self._number(tree.space, member, fed, rows, added.keys)
        together = self._add_to_bundles(tree, fed, labels, values, words) if member.signed else frozenset()
        for position, condition in zip(fed.conditions, fed.grouping.conditions, strict=True):
            if late is None and position in together:
                continue
            key = LaneKey(tree.space, fed.grouping.keys, condition)
            mask = takes(words, position) if member.signed else None
            if position not in together:
                self._add_to_lane(key, added, groups, mask)
            if late is not None and late.any():
                hit = late if mask is None else late & mask
                self._touched[key] = labels[hit], groups[hit]

    def _add_to_bundles(
        self, tree: Tree, fed: Fed, labels: Int64Array, values: Mapping[Component, Values], words: Words
    ) -> frozenset[int]:
        """Add the rows of all conditions that are columns of bundles, bundle by bundle; return those conditions."""
        found: dict[Bundle, list[tuple[int, int]]] = {}  # condition, column
        for position, condition in zip(fed.conditions, fed.grouping.conditions, strict=True):
            lane = self.lanes[LaneKey(tree.space, fed.grouping.keys, condition)]
            if isinstance(lane, ColumnLane):
                found.setdefault(lane.bundle, []).append((position, lane.number))
        for bundle, members in found.items():
            columns = np.array([column for _, column in members], np.int64)
            positions, portion = [position for position, _ in members], max(1, MOST_PAIRS // len(members))
            for first in range(0, len(labels), portion):
                row, taken = taken_pairs([word[first : first + portion] for word in words], positions)
                chosen = [pick(values[c], row + first) for c in bundle.components]
                if len(row):
                    bundle.add(labels[row + first], columns[taken], chosen)
            if bundle.lane.cells > MOST_CELLS:
                self._dissolve(bundle)
        return frozenset(position for members in found.values() for position, _ in members)

    def _dissolve(self, bundle: Bundle) -> None:
        """Let the columns of a bundle that has grown too large be lanes of their own."""
        alone = bundle.dissolve()
        self.lanes = {k: alone.get(one, one) if isinstance(one, ColumnLane) else one for k, one in self.lanes.items()}

    def _add_to_lane(self, key: LaneKey, added: _Added, groups: Int64Array, mask: BoolArray | None) -> None:
        """Add the rows of one condition to its lane."""
        labels, distinct = added.labels, added.distinct
        lane = self.lanes[key]
        chosen = [added.values[c] for c in lane.components]
        if mask is not None and not mask.all():
            labels, groups, distinct = labels[mask], groups[mask], distinct.take(mask)
            chosen = [pick(v, mask) for v in chosen]
        if not len(labels):
            return
        lane.add(labels, groups, chosen, distinct)
        if isinstance(lane, DenseLane) and lane.cells > MOST_CELLS:
            self.lanes[key] = lane.to_scan()
        elif isinstance(lane, ColumnLane) and lane.cells > MOST_CELLS:
            self._dissolve(lane.bundle)

    def _number(
        self, space: str, member: Member, fed: Fed, rows: pa.Table, keys: Mapping[int, KeyValues]
    ) -> Int64Array:
        """Number the groups of the rows."""
        if not fed.keys:
            return np.zeros(rows.num_rows, np.int64)
        slots = [member.slots[i] for i in fed.keys]
        codes = [rows[f"k{slot}"].to_numpy() for slot in slots]
        return self._groups[space, fed.grouping.keys].number(codes, [keys[slot] for slot in slots])

    def _note_presence(self, tree: str, labels: Int64Array) -> None:
        """Remember which slices hold rows of the stream."""
        known = self._present.get(tree)
        self._present[tree] = np.unique(labels if known is None else np.concatenate([known, labels]))


def _components_of(members: Sequence[Definition]) -> tuple[Component, ...]:
    """List what the queries of a lane need, each once."""
    return tuple(dict.fromkeys(c for d in members for c in d.typed.components))


def _slice_starts(layout: Layout, member: Member, rows: pa.Table, edges: Mapping[int, Sequence[int]]) -> Int64Array:
    """Turn the job's labels (granules, slice starts or positions among edges) into slice starts."""
    labels = np.asarray(rows["label"].to_numpy(), np.int64)
    if member.tree in edges:
        found = np.where(labels >= 0, labels, -labels - 2)  # −1: before all edges, too late for every window to come
        known = edges[member.tree]
        return np.take(np.array([known[0] - 1, *known], np.int64), found + 1)
    return layout.managers[member.tree].slice_starts(labels)


def _read_components(layout: Layout, member: Member, rows: pa.Table) -> dict[Component, Values]:
    """Read a grouping's partials."""
    values: dict[Component, Values] = {}
    for component in member.grouping.components:
        if component == ROWS:
            values[component] = values_of(component, [rows["rows"]])
            continue
        number = layout.components.index(component.source)
        values[component] = values_of(component, [rows[f"c{number}_{i}"] for i in range(column_count(component))])
    return values
