"""Where a stream stands: its time, its counts, and for every query the next window to answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.evaluate.typed import Definition
from penstock.share.layout import Layout
from penstock.share.plan import LaneKey
from penstock.share.slices import SliceManager
from penstock.store.commits import Commit, Counts, Paused


@dataclass(slots=True)
class Progress:
    """The state of one stream between two batches."""

    number: int = -1  # last commit
    batch: int = -1  # last batch of Spark's that is in
    watermark_us: int | None = None
    last_us: int | None = None
    first_us: int | None = None
    counts: Counts = field(default_factory=Counts)
    ended: bool = False
    starts: dict[int, int | None] = field(
        default_factory=dict
    )  # definition → from when whole; None: from the first row
    next_ends: dict[int, int] = field(default_factory=dict)  # definition → next window end, once known
    paused: dict[int, Paused] = field(default_factory=dict)
    cuts: dict[str, list[tuple[int | None, SliceManager]]] = field(default_factory=dict)  # tree → slicings, since when

    @property
    def frontier_us(self) -> int | None:
        """Return the first time of which no row was seen yet."""
        return None if self.last_us is None else self.last_us + 1

    def see(self, first_us: int, last_us: int) -> None:
        """Widen the stretch of time in which rows were seen."""
        self.first_us = first_us if self.first_us is None else min(first_us, self.first_us)
        self.last_us = last_us if self.last_us is None else max(last_us, self.last_us)

    def greatest_us(self) -> int:
        """Return the greatest valid time; there must have been one."""
        assert self.last_us is not None
        return self.last_us

    def enter(self, layout: Layout, floors: Mapping[LaneKey, int]) -> None:
        """Give the plan's new queries their start, and forget those that are gone."""
        current = {d.id for d in layout.plan.definitions}
        known = set(self.starts)
        for number, tree in enumerate(layout.plan.trees):
            members = [d for d in tree.definitions if d.id in known]
            for definition in tree.definitions:
                if definition.id not in known:
                    self._enter_one(definition, members, tree.name, floors.get(tree.lane_key(definition)))
            self.cuts.setdefault(tree.name, []).append((self.frontier_us, layout.managers[number]))
        for gone in known - current:
            self.starts.pop(gone, None)
            self.next_ends.pop(gone, None)
            self.paused.pop(gone, None)

    def _enter_one(self, new: Definition, members: list[Definition], tree: str, floor_us: int | None) -> None:
        """Find the first time from which what is stored can answer a query, and its first window."""
        window = new.query.window
        start = None if self.frontier_us is None else self._covered_since(new, members, tree, floor_us)
        self.starts[new.id] = start
        if start is not None:
            self.next_ends[new.id] = window.end_at_or_after(start + window.range_us)
        elif self.first_us is not None:
            self.next_ends[new.id] = window.end_after(self.first_us)

    def _covered_since(self, new: Definition, members: list[Definition], tree: str, floor_us: int | None) -> int | None:
        """Return from when the stored partials hold all that a new query needs; None: from the first row on."""
        frontier = self.frontier_us
        assert frontier is not None
        same = [m for m in members if _rows_of(m) == _rows_of(new)]
        since: list[int | None] = [self._uncut_since(new, tree, frontier), floor_us]
        for component in new.typed.components:
            holders = [self.starts[m.id] for m in same if component in m.typed.components]
            if not holders:
                return frontier
            since.append(None if None in holders else min(h for h in holders if h is not None))
        return max((s for s in since if s is not None), default=None)

    def _uncut_since(self, new: Definition, tree: str, frontier_us: int) -> int | None:
        """Return from when all stored slices respect the edges of a new query's window."""
        since: int | None = frontier_us
        for started, manager in reversed(self.cuts.get(tree, [])):
            if not manager.covers(new.query.window):
                return since
            since = started
        return since

    def first_end(self, definition: Definition, watermark_us: int) -> int | None:
        """Return the next window end of a query, or None while no window of it has ended."""
        known = self.next_ends.get(definition.id)
        if known is not None:
            return known
        if self.first_us is None:
            return None
        window = definition.query.window
        first = window.end_after(self.first_us)
        if self.watermark_us is not None:
            first = max(first, window.end_after(self.watermark_us))
        return first if first <= watermark_us else None

    def floor_of(self, definition: Definition) -> int | None:
        """Return the earliest time that a window still to come may hold; None before the first valid row.

        While a query's first window is open, late rows may still move it, but never before the watermark.
        """
        window, following = definition.typed.query.window, self.next_ends.get(definition.id)
        if following is None and self.watermark_us is not None:
            following = window.end_after(self.watermark_us)
        return None if following is None else following - window.range_us

    def floors(self, layout: Layout) -> dict[LaneKey, int]:
        """Return, lane by lane, the start of the earliest window still to come."""
        found: dict[LaneKey, int | None] = {}
        for tree in layout.plan.trees:
            for key, members in tree.lanes.items():
                each = [self.floor_of(definition) for definition in members]
                known = [floor for floor in each if floor is not None]
                found[key] = min(known) if len(known) == len(each) else None
        return {key: floor for key, floor in found.items() if floor is not None}

    def forget_cuts(self, floors: Mapping[LaneKey, int], trees: Iterable[str]) -> None:
        """Drop slicings that no stored slice was cut by any more."""
        kept = {}
        for tree in trees:
            starts = [floor for key, floor in floors.items() if key.tree == tree]
            cuts = self.cuts.get(tree, [])
            while len(cuts) > 1 and starts and (cuts[1][0] or 0) <= min(starts) and cuts[1][0] is not None:
                cuts = cuts[1:]
            kept[tree] = cuts
        self.cuts = kept

    def record(self) -> tuple[dict[str, int], dict[str, int | None]]:
        """Return what a restart cannot derive: the queries' starts and next windows."""
        starts = {str(number): start for number, start in self.starts.items() if start is not None}
        return starts, {str(number): self.next_ends.get(number) for number in self.starts}

    def restore(self, commit: Commit) -> None:
        """Stand where a commit stood."""
        self.number, self.batch = commit.number, commit.batch
        self.watermark_us, self.last_us, self.first_us = commit.watermark_us, commit.last_us, commit.first_us
        self.counts, self.ended = commit.counts, commit.ended
        self.paused = {int(k): v for k, v in commit.paused.items()}
        self.starts = {int(k): commit.starts.get(k) for k in commit.next_ends}
        self.next_ends = {int(k): v for k, v in commit.next_ends.items() if v is not None}


def _rows_of(definition: Definition) -> tuple[object, ...]:
    """Return what decides which rows go into which group of a query."""
    return (definition.query.keys, definition.query.joins, definition.query.where)
