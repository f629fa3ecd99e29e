"""Holds the stored partials of one stream, as lanes from which windows are answered."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.numbers import Component, pick
from penstock.evaluate.groups import Groups, KeyValues
from penstock.evaluate.windows.bundles import Bundle, ColumnLane
from penstock.evaluate.windows.lanes import UNBOUNDED, DenseLane, Growth, Lane, ScanLane
from penstock.evaluate.windows.partials import Distinct, Order, sort_pairs
from penstock.evaluate.windows.session_lane import SessionLane
from penstock.kernel.added_partials import AddedPartials
from penstock.kernel.arrived import Arrived, by_grouping, keys_told_apart, statistics
from penstock.kernel.breakable_lanes import BreakableLanes, Kernel, components_of, named
from penstock.kernel.condition_sums import Held, held_by_conditions
from penstock.kernel.defects import Defect, defect_of
from penstock.kernel.group_fill import GroupFill
from penstock.kernel.partial_columns import read_components, slice_starts
from penstock.kernel.presence import Presence
from penstock.model.arrays import Int64Array
from penstock.share.conditions.fragments import taken_pairs, takes
from penstock.share.grouping_rollup import RolledUp
from penstock.share.layout import Layout, Member
from penstock.share.partial_schema import LABEL, ROW_COUNT, TOUCHED_COUNT, key_name, stream_rows, words_of
from penstock.share.plan import LaneKey, Tree

__all__ = ["FEW_GROUPS", "Kernel", "Synopsis"]


FEW_GROUPS: Final = 1_000  # up to so many groups of one grouping are never forgotten
MOST_PAIRS: Final = 8_000_000  # of rows and conditions, looked at in one go
MOST_CELLS: Final = 48_000_000  # of one dense lane; beyond, its partials are scanned instead


@dataclass(frozen=True, slots=True)
class _Batch:
    """What all groupings of a batch have in common."""

    layout: Layout
    edges: Mapping[int, Sequence[int]]
    keys: Mapping[int, KeyValues | Defect]  # by slot: the values that key columns have codes of
    rows: int


class Synopsis(BreakableLanes):
    """All lanes of one stream."""

    def __init__(self, kernel: Kernel = "fast", growth: Growth = UNBOUNDED, *, in_driver: bool = True) -> None:
        """Start empty; ``spread`` are the groupings that the driver's synopsis holds nothing of, and the others all."""
        super().__init__(kernel, growth)
        self.in_driver = in_driver
        self.spread: frozenset[tuple[str, tuple[str, ...]]] = frozenset()
        self.partial_operations = 0  # rows folded into partials, each tree's apart (Krishnamurthy et al. 2006, §3.1)
        self._retired_operations = 0
        self.filling = GroupFill()
        self.presence = Presence()
        self._touched: dict[LaneKey, tuple[Int64Array, Int64Array]] = {}

    @property
    def final_operations(self) -> int:
        """Return how many partials were merged to answers."""
        bundles = sum(bundle.lane.operations for bundle in self._bundles.values())
        return self._retired_operations + bundles + sum(lane.operations for lane in self.lanes.values())

    @property
    def window_partials(self) -> int:
        """Return how many partials the windows held that were scanned: merging each by itself takes as many.

        These are the final operations of Krishnamurthy et al. (2006, §3.2).
        """
        return sum(lane.window_partials for lane in self.lanes.values() if isinstance(lane, ScanLane))

    @property
    def state_bytes(self) -> int:
        """Return about how much memory frequency tables, sketches and other states take."""
        return sum(lane.state_bytes for lane in list(self.lanes.values()))  # asked for while a batch may open lanes

    def bytes_by_lane(self) -> dict[LaneKey, float]:
        """Return about how much memory each lane takes; lanes of a bundle take a part of it each."""
        bundles = {id(one): one.lane.nbytes / one.width for one in list(self._bundles.values()) if one.width}
        found: dict[LaneKey, float] = {}
        for key, lane in list(self.lanes.items()):
            known = bundles.get(id(lane.bundle)) if isinstance(lane, ColumnLane) else None
            found[key] = lane.nbytes if known is None else known
        return found

    def bytes_by_grouping(self) -> dict[tuple[str, tuple[str, ...]], int]:
        """Return about how much memory the keys of each grouping's groups take."""
        return {grouping: groups.nbytes for grouping, groups in list(self._groups.items())}

    def session_lanes(self) -> dict[LaneKey, SessionLane]:
        """Return the lanes of sessions."""
        found: dict[LaneKey, SessionLane] = {}
        for key, lane in self.lanes.items():
            if isinstance(lane, SessionLane):
                found[key] = lane
        return found

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
        self._home = {key: tree.name for tree in layout.plan.trees for key in tree.lanes}
        if self.in_driver:  # an executor's answers one batch, and is gone
            self._look_at_edges(layout.plan.trees)
        self.presence.settle(self._home)
        before, self._members = self._members, wanted
        for key, members in wanted.items():
            if before.get(key) is not members:
                self.on_lane(key, "partials were laid out anew", self._open, key, components_of(members))
        trees = {t.name for t in layout.plan.trees}
        kept = {(t.space, g.keys) for t in layout.plan.trees for g in t.groupings}
        self._groups = {k: g for k, g in self._groups.items() if k in kept}
        self.filling.keep(trees)

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
                self.lanes[key] = self._empty_lane(key, components_of(members))
                self._members.pop(key, None)
            self.defects = {place: defect for place, defect in self.defects.items() if place[0] not in tree.lanes}
        return self.ingest(layout, partials, edges)

    def expire(self, floors: Mapping[LaneKey, int]) -> None:
        """Drop, lane by lane, the slices before the start of every window still to come."""
        for key, floor in floors.items():
            self.expire_lane(key, floor)
        self.expire_together(floors)

    def expire_lane(self, key: LaneKey, floor: int) -> None:
        """Drop one lane's slices before a time; a column's go with those of all columns of its bundle."""
        self.on_lane(key, "partials expired", self.lanes[key].expire, floor)

    def expire_together(self, floors: Mapping[LaneKey, int]) -> None:
        """Drop what lanes have together, once each was told its time."""
        for bundle in list(self._bundles.values()):
            self.on_lane(bundle, "partials expired", bundle.expire)
        self.presence.expire(floors)

    def reopen(self, floors: Mapping[LaneKey, int]) -> None:
        """Take, lane by lane, slices from a time on that nobody needed until a new query came."""
        for key, floor in floors.items():
            self.lanes[key].reopen(floor)

    def give_back(self, needed: Container[tuple[str, tuple[str, ...]]]) -> None:
        """Give back the memory of lanes that hold nothing any more, and of groups of which nothing is stored."""
        for key, lane in list(self.lanes.items()):
            if isinstance(lane, DenseLane | ScanLane) and not len(lane.groups()):
                self._close(lane)
                self.lanes[key] = self._empty_lane(key, lane.components)
        self.forget_groups(needed)

    def forget_groups(self, needed: Container[tuple[str, tuple[str, ...]]]) -> None:
        """Forget groups of which nothing is stored, once they are many; ``needed`` are groupings others number by."""
        for grouping, groups in self._groups.items():
            if len(groups) < FEW_GROUPS or grouping in needed:
                continue
            self.on_grouping(grouping, "groups were forgotten", self._forget_groups, grouping, groups)

    def _forget_groups(self, grouping: tuple[str, tuple[str, ...]], groups: Groups) -> None:
        """Forget groups of which no lane of a grouping holds anything, if they are most of them."""
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
            return
        if lane.components != components:
            lane = self.lanes[key] = lane.hold(components)
        self._follow_edges(key, lane)

    def _close(self, lane: Lane) -> None:
        """Let a lane go."""
        self._retired_operations += lane.operations
        if isinstance(lane, ColumnLane):
            lane.bundle.close(lane)

    def _add(self, batch: _Batch, member: Member, rows: pa.Table) -> Int64Array:
        """Add one grouping's partials to the lane of each condition; return the slices touched."""
        layout = batch.layout
        rows = rows.filter(rows[LABEL].is_valid()) if rows[LABEL].null_count else rows
        tree = layout.plan.trees[member.tree]
        labels = slice_starts(layout, member, rows, batch.edges)
        if member.carrier:
            self.presence.note(tree.name, labels[stream_rows(rows).to_numpy() > 0])
        if self._is_elsewhere(tree, member):  # what came here only counts the stream's rows
            return labels
        words = words_of(rows, member.grouping.words) if member.signed else []
        taken = np.any([w != 0 for w in words], axis=0) if words else None
        if taken is not None and not taken.all():
            rows, labels = rows.filter(pa.array(taken)), labels[taken]
            words = [w[taken] for w in words]
        self.partial_operations += int(np.sum(rows[ROW_COUNT].to_numpy(), dtype=np.int64))
        values, unread = read_components(layout, member, rows, words)
        late = rows[TOUCHED_COUNT].to_numpy() > 0 if layout.revising else None
        added = AddedPartials(labels, Distinct.of(labels), values, words, late, batch.keys, unread)
        if member.slots:
            counts = len(labels), len(added.distinct.labels), batch.rows
            self.filling.note((tree.name, member.grouping.keys), len(member.grouping.conditions), counts)
        for fed in member.feeds:
            self._add_fed(tree, member, fed, rows, added)
        return labels

    def _is_elsewhere(self, tree: Tree, member: Member) -> bool:
        """Tell whether all partials of a member are kept elsewhere."""
        return all(((tree.space, fed.grouping.keys) in self.spread) == self.in_driver for fed in member.feeds)

    def _add_fed(self, tree: Tree, member: Member, fed: RolledUp, rows: pa.Table, added: AddedPartials) -> None:
        """Add partials to the lanes of a grouping, its own or finer ones; lanes combine what is one group to them."""
        if ((tree.space, fed.grouping.keys) in self.spread) == self.in_driver:
            return
        groups = self._number(tree.space, member, fed, rows, added.keys)
        if isinstance(groups, Defect):
            self.tear_grouping((tree.space, fed.grouping.keys), groups)
            return
        if len(fed.keys) < len(member.slots):
            added, groups = added.rolled_up(groups, self._held_by(tree, fed))
        labels, words, late = added.labels, added.words, added.late
        together = self._add_to_bundles(tree, fed, added) if member.signed else frozenset()
        order = sort_pairs(added.distinct.places, groups) if fed.keys else None  # so that no lane sorts what it takes
        in_order = words if order is None else [word[order] for word in words]
        for position, condition in zip(fed.conditions, fed.grouping.conditions, strict=True):
            if late is None and position in together:
                continue
            key = LaneKey(tree.space, fed.grouping.keys, condition)
            if position not in together:
                rows = np.flatnonzero(takes(in_order, position)) if member.signed else None
                taken = rows if order is None else order if rows is None else order[rows]
                self.on_lane(key, "partials came", self._add_to_lane, key, added, groups, taken)
            if late is not None and late.any():
                hit = late & takes(words, position) if member.signed else late
                self._touched[key] = labels[hit], groups[hit]
        for condition in fed.grouping.conditions if added.unread else ():
            key = LaneKey(tree.space, fed.grouping.keys, condition)
            self.defects |= {(key, c): defect for c, defect in added.unread.items() if c in self.lanes[key].components}

    def _held_by(self, tree: Tree, fed: RolledUp) -> frozenset[Component]:
        """List the components that some lane of a grouping holds."""
        keys = (LaneKey(tree.space, fed.grouping.keys, condition) for condition in fed.grouping.conditions)
        return frozenset(component for key in keys for component in self.lanes[key].components)

    def _add_to_bundles(self, tree: Tree, fed: RolledUp, added: AddedPartials) -> frozenset[int]:
        """Add the rows of all conditions that are columns of bundles, bundle by bundle; return those conditions."""
        found: dict[Bundle, list[tuple[int, int]]] = {}  # condition, column
        for position, condition in zip(fed.conditions, fed.grouping.conditions, strict=True):
            lane = self.lanes[LaneKey(tree.space, fed.grouping.keys, condition)]
            if isinstance(lane, ColumnLane):
                found.setdefault(lane.bundle, []).append((position, lane.number))
        for bundle, members in found.items():
            self.on_lane(bundle, "partials came", self._add_to_bundle, bundle, members, added)
        return frozenset(position for members in found.values() for position, _ in members)

    def _add_to_bundle(self, bundle: Bundle, members: Sequence[tuple[int, int]], added: AddedPartials) -> None:
        """Add the rows of some conditions, each with its column, to a bundle."""
        columns = np.array([column for _, column in members], np.int64)
        positions = [position for position, _ in members]
        held = held_by_conditions(bundle.components, added.values, added.distinct, added.words, positions)
        for labels, taken, values in _pairs(bundle, added, positions) if held is None else held:
            if len(labels):
                bundle.add(labels, columns[taken], values)
        if bundle.lane.exceeds(MOST_CELLS):
            self._dissolve(bundle)

    def _dissolve(self, bundle: Bundle) -> None:
        """Let the columns of a bundle that has grown too large be lanes of their own."""
        alone = bundle.dissolve()
        self.lanes = {k: alone.get(one, one) if isinstance(one, ColumnLane) else one for k, one in self.lanes.items()}

    def _add_to_lane(self, key: LaneKey, added: AddedPartials, groups: Int64Array, rows: Order | None) -> None:
        """Add the rows of one condition to its lane, in the order given; None: all of them."""
        labels, distinct = added.labels, added.distinct
        lane = self.lanes[key]
        chosen = [added.values[c] for c in lane.components]
        if rows is not None:
            labels, groups, distinct = labels[rows], groups[rows], distinct.take(rows)
            chosen = [pick(v, rows) for v in chosen]
        if not len(labels):
            return
        lane.add(labels, groups, chosen, distinct)
        if isinstance(lane, DenseLane) and lane.exceeds(MOST_CELLS):
            self.lanes[key] = lane.to_scan()
        elif isinstance(lane, ColumnLane) and lane.bundle.lane.exceeds(MOST_CELLS):
            self._dissolve(lane.bundle)

    def _number(
        self, space: str, member: Member, fed: RolledUp, rows: pa.Table, keys: Mapping[int, KeyValues | Defect]
    ) -> Int64Array | Defect:
        """Number the groups of the rows, or tell why they have no numbers."""
        if not fed.keys:
            return np.zeros(rows.num_rows, np.int64)
        slots, known = [member.slots[i] for i in fed.keys], list[KeyValues]()
        for found in (keys[slot] for slot in slots):
            if isinstance(found, Defect):
                return found
            known.append(found)
        try:
            codes = [rows[key_name(slot)].to_numpy() for slot in slots]
            return self._groups[space, fed.grouping.keys].number(codes, known)
        except Exception as error:
            return defect_of(error, f"groups {named(fed.grouping.keys)} were numbered")


def _pairs(bundle: Bundle, added: AddedPartials, positions: Sequence[int]) -> Iterator[Held]:
    """List the partials that each condition takes, some partials at a time."""
    portion = max(1, MOST_PAIRS // len(positions))
    for first in range(0, len(added.labels), portion):
        row, taken = taken_pairs([word[first : first + portion] for word in added.words], positions)
        rows = row + first
        yield added.labels[rows], taken, [pick(added.values[c], rows) for c in bundle.components]
