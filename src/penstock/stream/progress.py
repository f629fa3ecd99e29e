"""Keeps where a stream stands: its watermark, its counts, and for every query the next window to answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.due import NO_SILENCE, Silence
from penstock.model.window import RowsWindow
from penstock.share.layout import Layout
from penstock.share.plan import LaneKey, Plan, condition_of
from penstock.share.slices import SliceManager
from penstock.store.commits import Commit, Counts, Paused
from penstock.store.invalid import Invalid

NEVER: Final = 1 << 62  # a time that no window ends at


Cuts = list[tuple[int | None, SliceManager]]  # slicings, since when


@dataclass(frozen=True, slots=True)
class Moved:
    """When a lane came to its tree, and how it had been sliced until then."""

    since_us: int
    before: Cuts


@dataclass(slots=True)
class Progress:
    """The state of one stream between two batches."""

    number: int = -1  # last commit
    batch: int = -1  # last batch of Spark's that is in
    source: str = ""  # the source's position after it
    watermark_us: int | None = None
    last_us: int | None = None
    first_us: int | None = None
    counts: Counts = field(default_factory=Counts)
    invalid: Invalid = field(default_factory=Invalid)  # rows, by reason
    too_late: dict[int, int] = field(default_factory=dict)  # definition → rows that came too late for it
    ended: bool = False
    starts: dict[int, int | None] = field(
        default_factory=dict
    )  # definition → from when whole; None: from the first row
    next_ends: dict[int, int] = field(default_factory=dict)  # definition → next window end, once known
    first_ends: dict[int, int] = field(default_factory=dict)  # definition → first window end it answers, once known
    resumed_ends: dict[int, int] = field(default_factory=dict)  # definition → first window end after its last pause
    failed_us: dict[int, int] = field(default_factory=dict)  # definition → time after the last row it failed on
    paused: dict[int, Paused] = field(default_factory=dict)
    silences: dict[int, Silence] = field(default_factory=dict)  # definition → its empty windows, where there are any
    departed: dict[str, int] = field(default_factory=dict)  # name of a query that is gone → windows before it were said
    cuts: dict[str, Cuts] = field(default_factory=dict)  # tree → slicings, since when
    moved: dict[LaneKey, Moved] = field(default_factory=dict)  # lanes that came from another tree
    homes: dict[LaneKey, str] = field(default_factory=dict)  # lane → tree, where lanes may move

    @property
    def frontier_us(self) -> int | None:
        """Return the first time of which no row was seen yet."""
        return None if self.last_us is None else self.last_us + 1

    def see(self, first_us: int, last_us: int) -> None:
        """Widen the stretch of time in which rows were seen."""
        self.first_us = first_us if self.first_us is None else min(first_us, self.first_us)
        self.last_us = last_us if self.last_us is None else max(last_us, self.last_us)

    def watermark_after(self, lateness_us: int) -> int:
        """Return the watermark that the rows seen so far make; a heartbeat may have gone further."""
        assert self.last_us is not None
        seen = self.last_us - lateness_us
        return seen if self.watermark_us is None else max(seen, self.watermark_us)

    def rate(self) -> float | None:
        """Return the stream's rows per second of event time so far."""
        if self.first_us is None or self.last_us is None or self.last_us <= self.first_us:
            return None
        return self.counts.ingested / ((self.last_us - self.first_us) / 1e6)

    # -- queries that come and go --------------------------------------------------------------------------------

    def switch(self, layout: Layout, before: Layout | None) -> None:
        """Enter the plan's new queries, note its slicing, and forget those that are gone."""
        current = {d.id for d in layout.plan.definitions}
        self._move(layout)
        for number, tree in enumerate(layout.plan.trees):
            new = [definition for definition in tree.definitions if definition.id not in self.starts]
            floors = {lane: self.floor(lane, before) for lane in map(tree.lane_key, new)}
            for definition in new:
                lane = tree.lane_key(definition)
                self.enter(definition, tree.lanes[lane], lane, floors[lane])
            self.cuts.setdefault(tree.name, []).append((self.frontier_us, layout.managers[number]))
        for gone in self.starts.keys() - current:
            self.forget(gone)

    def _move(self, layout: Layout) -> None:
        """Note which lanes of woven trees come from another tree: they take along how they were sliced."""
        before = self.homes
        self.homes = {k: tree.name for tree in layout.plan.trees if tree.space != tree.name for k in tree.lanes}
        for key, tree in self.homes.items():
            if before.get(key, tree) != tree and self.frontier_us is not None:
                known = self._cuts_of(key, before[key])
                self.moved[key] = Moved(self.frontier_us, known)
        self.moved = {key: moved for key, moved in self.moved.items() if key in self.homes}

    def cuts_of(self, lane: LaneKey) -> Cuts:
        """Return how a lane was sliced, since when."""
        return self._cuts_of(lane, self.homes.get(lane, lane.tree))

    def _cuts_of(self, lane: LaneKey, tree: str) -> Cuts:
        """Return how a lane that is in a tree now was sliced there, and before it came."""
        cuts, moved = self.cuts.get(tree, []), self.moved.get(lane)
        if moved is None:
            return cuts
        return [*moved.before, *(c for c in cuts if c[0] is not None and c[0] >= moved.since_us)]

    def forget(self, number: int) -> None:
        """Forget a definition that is gone."""
        self.failed_us.pop(number, None)
        known: dict[int, Any]
        counted = self.paused, self.silences, self.too_late
        for known in (self.starts, self.next_ends, self.first_ends, self.resumed_ends, *counted):
            known.pop(number, None)

    def note_silence(self, number: int, silence: Silence) -> None:
        """Remember how many empty windows a definition had; most have none."""
        if silence != NO_SILENCE:
            self.silences[number] = silence
        else:
            self.silences.pop(number, None)

    def enter(self, new: Definition, others: Sequence[Definition], lane: LaneKey, floor_us: int | None) -> None:
        """Give a query its start, the first time from which what is stored can answer it."""
        if isinstance(new.query.window, RowsWindow):  # its rows are numbered from here on
            self.begin(new, self.frontier_us)
            return
        members = [d for d in others if d.id in self.starts]
        covered = None if self.frontier_us is None else self._covered_since(new, members, lane, floor_us)
        if new.begins_us is not None and self.frontier_us is not None:  # windows before it were another one's
            covered = new.begins_us if covered is None else max(covered, new.begins_us)
        self.begin(new, covered)

    def begin(self, new: Definition, start_us: int | None) -> None:
        """Let a query begin with the first window that is wholly after its start; None: with the first row."""
        window = new.query.window
        self.starts[new.id] = start_us
        self.silences.pop(new.id, None)
        if start_us is not None and isinstance(window, RowsWindow):  # its first window has as many rows as it slides by
            self.next_ends[new.id] = window.end_after(start_us)
        elif start_us is not None and self.first_us is not None:
            self.next_ends[new.id] = window.end_at_or_after(start_us + window.range_us)
        elif self.first_us is not None:
            self.next_ends[new.id] = window.end_after(self.first_us)
        if new.id in self.next_ends:
            self.first_ends[new.id] = self.next_ends[new.id]

    def _covered_since(
        self, new: Definition, members: Sequence[Definition], lane: LaneKey, floor_us: int | None
    ) -> int | None:
        """Return from when the stored partials hold all that a new query needs; None: from the first row on.

        Of times from the frontier on nothing is missing, also of those that others have no need of any more.
        """
        frontier = self.frontier_us
        assert frontier is not None
        held = self.held_since(new, members)
        if held == NEVER:
            return frontier
        since = [self._uncut_since(new, lane, frontier), floor_us, held]
        latest = max((s for s in since if s is not None), default=None)
        whole = latest is None or self.first_us is None or latest <= self.first_us
        return None if whole or latest is None else min(latest, frontier)

    def held_since(self, new: Definition, members: Iterable[Definition]) -> int | None:
        """Return from when partials of a query's rows and components are whole; None: from the first row; or NEVER."""
        same = [m for m in members if _rows_of(m) == _rows_of(new)]
        since: list[int | None] = []
        for component in new.typed.components:
            holders = [self._whole_since(m) for m in same if component in m.typed.components]
            if not holders:
                return NEVER
            since.append(None if None in holders else min(h for h in holders if h is not None))
        return max((s for s in since if s is not None), default=None)

    def _whole_since(self, holder: Definition) -> int | None:
        """Return from when a query's partials lack no row; None: from the first row on."""
        known = [t for t in (self.starts[holder.id], self.failed_us.get(holder.id)) if t is not None]
        return max(known, default=None)

    def _uncut_since(self, new: Definition, lane: LaneKey, frontier_us: int) -> int | None:
        """Return from when all stored slices respect the edges of a new query's window."""
        since: int | None = frontier_us
        for started, manager in reversed(self.cuts_of(lane)):
            if not manager.covers(new.query.window):
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

    # -- windows -------------------------------------------------------------------------------------------------

    def first_end(self, definition: Definition, watermark_us: int) -> int | None:
        """Return the next window end of a query, or None while no window of it has ended."""
        known = self.next_ends.get(definition.id)
        if known is not None:
            return known
        if self.first_us is None:
            return None
        window = definition.query.window
        first = window.end_after(self.first_us)
        start = self.starts.get(definition.id)
        if start is not None:  # it asked for a time before any row came
            first = max(first, window.end_at_or_after(start + window.range_us))
        if self.watermark_us is not None:
            first = max(first, window.end_after(self.watermark_us))
        return first if first <= watermark_us else None

    def revised_from(self, definition: Definition) -> int:
        """Return the first window end whose answer late rows may revise: none of a query that is paused."""
        if definition.id in self.paused:
            return NEVER
        return self.resumed_ends.get(definition.id, self.first_ends.get(definition.id, NEVER))

    def revised(self, layout: Layout) -> tuple[tuple[int, int, int], ...]:
        """Return for each of a layout's revising windows after, from and by which ends late rows revise answers."""
        if self.watermark_us is None or not layout.revising:
            return tuple((NEVER, NEVER, NEVER) for _ in layout.revising)
        found: dict[object, tuple[int, int]] = {}
        for definition in layout.plan.definitions if layout.revising else ():
            key = definition.query.window, definition.typed.revise_us
            since, until = found.get(key, (NEVER, -NEVER))
            own = self.last_own_end(definition)  # a replaced definition and its successor follow each other
            found[key] = min(since, self.revised_from(definition)), max(until, own)
        return tuple((self.watermark_us - revise, *found[window, revise]) for window, revise in layout.revising)

    def last_own_end(self, definition: Definition) -> int:
        """Return the time by which the windows end that no later definition of the query answers; NEVER: all are."""
        if definition.handover is None:
            return NEVER
        by_rows = isinstance(definition.query.window, RowsWindow)  # numbers, of which the successor tells its first
        begins = [] if by_rows else [definition.handover.at_us]
        if (successor := definition.handover.successor) in self.starts:
            start = self.starts[successor]  # a backfill may have moved it
            begins.append(-NEVER if start is None else start)
        return min((begin - 1 + definition.query.window.range_us for begin in begins), default=NEVER)

    def lost_ends(self, definition: Definition, watermark_us: int) -> tuple[int, int]:
        """Return the first and last window end of a query that late rows are too late for: final, and not revised."""
        window, start = definition.query.window, self.starts.get(definition.id)
        last = min(watermark_us, self.last_own_end(definition))
        if definition.typed.revise_us:
            last = min(last, max(watermark_us - definition.typed.revise_us, self.revised_from(definition) - 1))
        return -NEVER if start is None else window.end_at_or_after(start + window.range_us), last

    def floor_of(self, definition: Definition) -> int | None:
        """Return the earliest time that is still needed of a query's partials; None before the first valid row.

        While a query's first window is open, late rows may still move it, but never before the watermark.
        """
        typed, following = definition.typed, self.next_ends.get(definition.id)
        window, watermark = typed.query.window, self.watermark_us
        if watermark is None:
            return None if following is None else following - window.range_us
        if following is None or typed.revise_us:
            revised = window.end_after(watermark - typed.revise_us)
            following = revised if following is None else min(revised, following)
        floor = following - window.range_us
        if typed.retain_us:
            floor = min(floor, watermark - typed.retain_us)
        start = self.starts.get(definition.id)  # nothing before it is whole for this query
        return floor if start is None else max(floor, start)

    def floors(self, layout: Layout) -> dict[LaneKey, int]:
        """Return, lane by lane, the earliest time that is still needed: a longer window over the same rows keeps more.

        So a synopsis grows with the queries that find it (Golab, Bijay and Özsu 2006, §2.3).
        """
        lanes = [item for tree in layout.plan.trees for item in tree.lanes.items()]
        found = {key: self._lowest(members) for key, members in lanes}
        return {key: floor for key, floor in found.items() if floor is not None}

    def floor(self, lane: LaneKey, layout: Layout | None) -> int | None:
        """Return the earliest time that is still needed of one lane; None: of nothing, or before the first row."""
        trees = () if layout is None else layout.plan.trees
        found = [tree.lanes[lane] for tree in trees if lane in tree.lanes]
        return self._lowest(found[0]) if found else None

    def _lowest(self, members: Sequence[Definition]) -> int | None:
        """Return the earliest time that some queries still need; None if one of them has seen no row."""
        each = [self.floor_of(d) for d in members]
        return None if None in each else min(floor for floor in each if floor is not None)

    def floors_of(self, layout: Layout, before: Plan | None) -> dict[LaneKey, int]:
        """Return, for lanes with queries that were not in the plan before, the earliest time that these need."""
        known = frozenset[int]() if before is None else {d.id for d in before.definitions}
        found: dict[LaneKey, int] = {}
        for tree in layout.plan.trees:
            for definition in tree.definitions:
                floor = None if definition.id in known else self.floor_of(definition)
                if floor is not None:
                    lane = tree.lane_key(definition)
                    found[lane] = min(floor, found.get(lane, floor))
        return found

    def forget_cuts(self, floors: Mapping[LaneKey, int], trees: Iterable[str]) -> None:
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

    # -- restart -------------------------------------------------------------------------------------------------

    def restore(self, commit: Commit) -> None:
        """Stand where a commit stood."""
        self.number, self.batch = commit.number, commit.batch
        self.source = commit.source or self.source
        self.watermark_us, self.last_us, self.first_us = commit.watermark_us, commit.last_us, commit.first_us
        self.counts, self.ended = commit.counts, commit.ended
        self.invalid, self.too_late = commit.invalid, {int(k): v for k, v in commit.too_late.items()}
        self.paused = {int(k): v for k, v in commit.paused.items()}
        self.starts = {int(k): commit.starts.get(k) for k in commit.next_ends}
        self.next_ends = {int(k): v for k, v in commit.next_ends.items() if v is not None}
        self.first_ends = {int(k): v for k, v in commit.first_ends.items()}
        self.resumed_ends = {int(k): v for k, v in commit.resumed_ends.items()}
        self.silences = {int(k): Silence(*counts) for k, counts in commit.silences.items()}
        self.departed = dict(commit.departed)
        self.failed_us = {int(k): v for k, v in commit.failed.items()}


def _rows_of(definition: Definition) -> tuple[object, ...]:
    """Return what decides which rows go into which group of a query."""
    return (definition.query.keys, condition_of(definition))
