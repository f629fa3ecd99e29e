"""Keeps the row numbers of each partition for windows of rows with PARTITION BY.

Every part has a stretch of its own on one line of numbers: part p's rows are numbered from p · stride on. The stride is
a multiple of every slide, so the edges of windows lie alike in all parts, and slices, partials and lanes are those of
any other line. Only what is due, and what can be let go of, differs: both go by a part's own count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.evaluate.groups import Groups
from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.growth import UNBOUNDED, Growth
from penstock.evaluate.windows.scan import ScanLane
from penstock.kernel.arrived import Arrived
from penstock.kernel.presence import NothingKept
from penstock.kernel.synopsis import Kernel, Synopsis
from penstock.model.arrays import Int64Array
from penstock.model.derived import stride_of
from penstock.model.window import RowsWindow
from penstock.share.layout import Layout, Member
from penstock.share.partial_schema import GROUPING, LABEL, LAST_TIME, has_groupings, key_name, words_of
from penstock.share.plan import LaneKey


class Partitions:
    """The parts seen so far: the stretch of each key, and how many of its rows are numbered."""

    def __init__(self, stride: int, types: Sequence[pa.DataType]) -> None:
        """Start without parts."""
        self.stride = stride
        self._groups = Groups(types)
        self._parts = np.empty(0, np.int64)  # part of each group of keys
        self._counts = np.empty(0, np.int64)  # of each part
        self.grown: tuple[Int64Array, ...] = (self._counts,) * 3  # by the last batch: parts, counts before and after

    def __len__(self) -> int:
        """Count the parts."""
        return len(self._counts)

    def next_numbers(self, keys: Sequence[pa.ChunkedArray]) -> Int64Array:
        """Return the number that the next row of each key will have; new keys get a stretch."""
        parts = self._of(keys)
        return parts * self.stride + self._counts[parts]

    def note(self, keys: Sequence[pa.ChunkedArray], last: Int64Array) -> None:
        """Note the greatest number of some keys' partials; a key that comes from an older process keeps its stretch."""
        groups = self._groups.encode(keys)
        found = last // self.stride
        self._make_room(len(self._groups), int(found.max(initial=-1)) + 1)
        self._parts[groups] = found
        parts = np.unique(found)
        after = np.zeros(len(self._counts), np.int64)
        np.maximum.at(after, found, last % self.stride + 1)
        before = self._counts[parts]
        self._counts[parts] = np.maximum(before, after[parts])
        self.grown = parts, before, self._counts[parts]

    def _of(self, keys: Sequence[pa.ChunkedArray]) -> Int64Array:
        """Return the parts of keys."""
        groups = self._groups.encode(keys)
        known = len(self._parts)
        self._make_room(len(self._groups), len(self._counts))
        for group in range(known, len(self._groups)):
            self._parts[group] = len(self._counts)
            self._make_room(0, len(self._counts) + 1)
        return self._parts[groups]

    def _make_room(self, groups: int, parts: int) -> None:
        """Have a place for so many groups and parts."""
        self._parts = _longer(self._parts, groups)
        self._counts = _longer(self._counts, parts)

    def floors(self, definitions: Sequence[Definition]) -> Int64Array:
        """Return for each part the first number that a window to come holds."""
        floors = np.full(len(self._counts), 1 << 62, np.int64)
        for definition in definitions:
            window = definition.query.window
            following = (self._counts // window.slide + 1) * window.slide
            floors = np.minimum(floors, following - window.length)
        return np.maximum(floors, 0) + np.arange(len(floors)) * self.stride

    def needed(self, partials: pa.Table, definitions: Sequence[Definition]) -> pa.Table:
        """Keep what windows to come hold of stored partials, and what tells where a part stands."""
        last = np.asarray(partials[LAST_TIME].fill_null(-1).to_numpy(), np.int64)
        parts = last // self.stride
        known = (parts >= 0) & (parts < len(self._counts))
        place = np.where(known, parts, 0)
        floors = np.minimum(self.floors(definitions), np.arange(len(self._counts)) * self.stride + self._counts - 1)
        return partials.filter(pa.array(~known | (last >= floors[place])))

    def due(self, definition: Definition) -> tuple[Int64Array, Int64Array]:
        """Return starts and ends of a query's windows that the last batch made final, part by part."""
        window, (parts, before, after) = definition.query.window, self.grown
        first, last = before // window.slide + 1, after // window.slide
        numbers = np.maximum(0, last - first + 1)
        skipped = np.repeat(np.cumsum(numbers) - numbers, numbers)
        base = np.repeat(parts * self.stride, numbers)
        ends = base + (np.repeat(first, numbers) + np.arange(int(numbers.sum())) - skipped) * window.slide
        return np.maximum(ends - window.length, base), ends


class PartitionedSynopsis(Synopsis):
    """Stored partials of numbered parts; lanes scan what they hold, which is little of many parts."""

    def __init__(self, kernel: Kernel = "scan", growth: Growth = UNBOUNDED) -> None:
        """Start empty, whatever the kernel of other lines."""
        super().__init__("scan", growth)
        self.presence = NothingKept()
        self.parts: Partitions | None = None  # until the first query tells its keys
        self.partition: tuple[str, ...] = ()  # keys as groupings write them

    def prepare(self, layout: Layout) -> None:
        """Open the lanes a plan needs; its first query's window tells the parts."""
        super().prepare(layout)
        for definition in layout.plan.definitions if self.parts is None else ():
            window, query = definition.query.window, definition.query
            assert isinstance(window, RowsWindow)
            self.partition = tuple(f"`{column.replace('`', '``')}`" for column in window.partition)
            types = [definition.typed.key_types[query.keys.index(key)] for key in self.partition]
            self.parts = Partitions(stride_of(window), types)
            return

    def ingest(self, layout: Layout, partials: pa.Table, edges: Mapping[int, Sequence[int]]) -> Arrived:
        """Add a batch's partials to the lanes, and note how far each part's numbers go."""
        arrived = super().ingest(layout, partials, edges)
        whole = next((m for m in layout.members if self._is_whole(m)), None)  # any will do, and one of them is enough
        if whole is not None and self.parts is not None:
            rows = _taken(partials, whole)
            keys = [rows[key_name(slot)] for slot in whole.slots]
            self.parts.note(keys, np.asarray(rows[LAST_TIME].to_numpy(), np.int64))
        return arrived

    def _is_whole(self, member: Member) -> bool:
        """Tell whether a grouping has the parts' keys and a condition that takes every row: a ruler's."""
        grouping = member.grouping
        return grouping.keys == self.partition and any(c.where is None and not c.joins for c in grouping.conditions)

    def let_go(self, layout: Layout) -> None:
        """Drop the slices before the start of every window still to come, part by part."""
        parts = self.parts
        if parts is None:
            return
        for key, members in ((k, m) for tree in layout.plan.trees for k, m in tree.lanes.items()):
            lane, floors = self.lanes[key], parts.floors(members)
            assert isinstance(lane, ScanLane)
            self.on_lane(key, "partials expired", _expire, lane, floors, parts.stride)

    def most_groups(self, key: LaneKey) -> int:
        """Return about how many groups a window has: those of one part, if parts are alike."""
        parts = 1 if self.parts is None else max(1, len(self.parts))
        return -(-super().most_groups(key) // parts)


def _expire(lane: ScanLane, floors: Int64Array, stride: int) -> None:
    """Drop the slices of a lane before the floor of their part."""
    labels = lane.stored().labels
    lane.keep(labels >= floors[labels // stride])


def _taken(partials: pa.Table, member: Member) -> pa.Table:
    """Return a grouping's partials of rows that some condition takes: others have no keys."""
    rows = partials.filter(partials[LABEL].is_valid())
    if has_groupings(rows):
        rows = rows.filter(pa.array(rows[GROUPING].to_numpy() == member.number))
    if not member.signed:
        return rows
    words = [word != 0 for word in words_of(rows, member.grouping.words)]
    return rows.filter(pa.array(np.any(words, axis=0)))


def _longer(array: Int64Array, length: int) -> Int64Array:
    """Return an array of at least a length."""
    missing = length - len(array)
    return array if missing <= 0 else np.concatenate([array, np.zeros(missing, np.int64)])
