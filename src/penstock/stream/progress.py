"""Says from when on what is stored can answer a query: where a stream stands, between two batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.evaluate.typed import Definition
from penstock.model.window import RowsWindow
from penstock.share.layout import Layout
from penstock.share.plan import LaneKey, condition_of
from penstock.store.commits import Commit
from penstock.stream.clock import StreamClock
from penstock.stream.query_windows import NEVER, QueryWindows
from penstock.stream.slicing_history import SlicingHistory


class Progress:
    """Where one stream stands: its clock, the windows of its queries, and how it was cut into slices."""

    def __init__(self) -> None:
        """Start before the first row."""
        self.clock = StreamClock()
        self.windows = QueryWindows(self.clock)
        self.slicings = SlicingHistory(self.clock)

    def restore(self, commit: Commit) -> None:
        """Stand where a commit stood."""
        self.clock.restore(commit)
        self.windows.restore(commit)

    def switch(self, layout: Layout, before: Layout | None) -> None:
        """Enter the plan's new queries, note its slicing, and forget those that are gone."""
        current = {d.id for d in layout.plan.definitions}
        by_time = [d for d in layout.plan.definitions if not isinstance(d.query.window, RowsWindow)]
        self.windows.names = {d.id: d.name.lower() for d in by_time}
        self.slicings.move(layout)
        for number, tree in enumerate(layout.plan.trees):
            new = [definition for definition in tree.definitions if definition.id not in self.windows.starts]
            floors = {lane: self.windows.floor(lane, before) for lane in map(tree.lane_key, new)}
            for definition in new:
                lane = tree.lane_key(definition)
                self.enter(definition, tree.lanes[lane], lane, floors[lane])
            self.slicings.note(tree.name, layout.managers[number])
        for gone in self.windows.starts.keys() - current:
            self.windows.forget(gone)

    def enter(self, new: Definition, others: Sequence[Definition], lane: LaneKey, floor_us: int | None) -> None:
        """Give a query its start, the first time from which what is stored can answer it."""
        if isinstance(new.query.window, RowsWindow):  # its rows are numbered from here on
            self.windows.begin(new, self.clock.seen_until_us)
            return
        members = [d for d in others if d.id in self.windows.starts]
        covered = None if self.clock.seen_until_us is None else self._covered_since(new, members, lane, floor_us)
        if new.begins_us is not None and self.clock.seen_until_us is not None:  # windows before it were another one's
            covered = new.begins_us if covered is None else max(covered, new.begins_us)
        self.windows.begin(new, covered)

    def _covered_since(
        self, new: Definition, members: Sequence[Definition], lane: LaneKey, floor_us: int | None
    ) -> int | None:
        """Return from when the stored partials hold all that a new query needs; None: from the first row on.

        Of times of which no row was seen yet nothing is missing, also of those that others have no need of any more.
        """
        seen_until = self.clock.seen_until_us
        assert seen_until is not None
        held = self.held_since(new, members)
        if held == NEVER:
            return seen_until
        since = [self.slicings.uncut_since(new.query.window, lane, seen_until), floor_us, held]
        latest = max((s for s in since if s is not None), default=None)
        whole = latest is None or self.clock.first_us is None or latest <= self.clock.first_us
        return None if whole or latest is None else min(latest, seen_until)

    def held_since(self, new: Definition, members: Iterable[Definition]) -> int | None:
        """Return from when partials of a query's rows and components are whole; None: from the first row; or NEVER."""
        same = [m for m in members if _rows_of(m) == _rows_of(new)]
        since: list[int | None] = []
        for component in new.typed.components:
            holders = [self.windows.whole_since(m) for m in same if component in m.typed.components]
            if not holders:
                return NEVER
            since.append(None if None in holders else min(h for h in holders if h is not None))
        return max((s for s in since if s is not None), default=None)


def _rows_of(definition: Definition) -> tuple[object, ...]:
    """Return what decides which rows go into which group of a query."""
    return (definition.query.keys, condition_of(definition))
