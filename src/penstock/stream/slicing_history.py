"""Remembers how a stream was cut into slices, tree by tree, since when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.model.window import Window
from penstock.share.layout import Layout
from penstock.share.plan import LaneKey
from penstock.share.slices import SliceManager
from penstock.stream.clock import StreamClock

Cuts = list[tuple[int | None, SliceManager]]  # slicings, since when


@dataclass(frozen=True, slots=True)
class Moved:
    """When a lane came to its tree, and how it had been sliced until then."""

    since_us: int
    before: Cuts


@dataclass(slots=True)
class SlicingHistory:
    """The slicings that stored slices were cut by."""

    clock: StreamClock
    cuts: dict[str, Cuts] = field(default_factory=dict)  # tree → slicings, since when
    moved: dict[LaneKey, Moved] = field(default_factory=dict)  # lanes that came from another tree
    homes: dict[LaneKey, str] = field(default_factory=dict)  # lane → tree

    def move(self, layout: Layout) -> None:
        """Note which lanes of woven trees come from another tree: they take along how they were sliced."""
        before = self.homes
        self.homes = {k: tree.name for tree in layout.plan.trees for k in tree.lanes}
        for key, tree in self.homes.items():
            if before.get(key, tree) != tree and self.clock.seen_until_us is not None:
                known = self._cuts_of(key, before[key])
                self.moved[key] = Moved(self.clock.seen_until_us, known)
        self.moved = {key: moved for key, moved in self.moved.items() if key in self.homes}

    def note(self, tree: str, manager: SliceManager) -> None:
        """Cut a tree otherwise from now on."""
        self.cuts.setdefault(tree, []).append((self.clock.seen_until_us, manager))

    def cuts_of(self, lane: LaneKey) -> Cuts:
        """Return how a lane was sliced, since when."""
        return self._cuts_of(lane, self.homes.get(lane, lane.tree))

    def _cuts_of(self, lane: LaneKey, tree: str) -> Cuts:
        """Return how a lane that is in a tree now was sliced there, and before it came."""
        cuts, moved = self.cuts.get(tree, []), self.moved.get(lane)
        if moved is None:
            return cuts
        return [*moved.before, *(c for c in cuts if c[0] is not None and c[0] >= moved.since_us)]

    def uncut_since(self, window: Window, lane: LaneKey, seen_until_us: int) -> int | None:
        """Return from when all stored slices respect the edges of a window."""
        since: int | None = seen_until_us
        for started, manager in reversed(self.cuts_of(lane)):
            if not manager.covers(window):
                return since
            since = started
        return since

    def is_edge(self, lane: LaneKey, time_us: int) -> bool:
        """Tell whether no stored slice of a lane reaches over a time: its slicing and all later ones cut there."""
        for started, manager in reversed(self.cuts_of(lane)):
            if manager.edge_at_or_before(time_us) != time_us:
                return False
            if started is None or started <= time_us:
                return True
        return False

    def forget(self, floors: Mapping[LaneKey, int], trees: Iterable[str]) -> None:
        """Drop slicings that no stored slice was cut by any more."""
        kept, needed = {}, dict[str, int]()
        for key, floor in floors.items():
            tree = self.homes.get(key, key.tree)
            needed[tree] = min(floor, needed.get(tree, floor))
        for tree in trees:
            cuts = self.cuts.get(tree, [])
            while len(cuts) > 1 and tree in needed and (cuts[1][0] or 0) <= needed[tree] and cuts[1][0] is not None:
                cuts = cuts[1:]
            kept[tree] = cuts
        self.cuts = kept
        self.moved = {k: moved for k, moved in self.moved.items() if floors.get(k, 0) < moved.since_us}
