"""Says from when on what is stored can answer a query: where a stream stands, between two batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.evaluate.components.numbers import Component
from penstock.evaluate.typed import Definition
from penstock.model.window import RowsWindow, SessionWindow
from penstock.share.layout import Layout
from penstock.share.plan import LaneKey, condition_of
from penstock.store.commits import Commit
from penstock.stream.clock import StreamClock
from penstock.stream.query_windows import NEVER, QueryWindows
from penstock.stream.slicing_history import SlicingHistory


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """How far the backfill of a query is."""

    definition: int
    read: int  # units of the past, such as files
    units: int | None  # None: nobody knows yet
    answered: int
    windows: int | None  # None: its past is not read yet


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
        self.windows.retimed = {d.id: d.first for d in by_time if d.retimed is not None and d.id in self.windows.starts}
        self.slicings.move(layout)
        for number, tree in enumerate(layout.plan.trees):
            new = [definition for definition in tree.definitions if definition.id not in self.windows.starts]
            floors = {lane: self.windows.floor(lane, before) for lane in map(tree.lane_key, new)}
            holders = {lane: self.holders(tree.lanes[lane]) for lane in floors}
            for definition in new:
                lane = tree.lane_key(definition)
                self.enter(definition, holders[lane], lane, floors[lane])
                self.windows.go_on(definition)
            self.slicings.note(tree.name, layout.managers[number])
        for gone in self.windows.starts.keys() - current:
            self.windows.forget(gone)

    def enter(self, new: Definition, holders: Holders, lane: LaneKey, floor_us: int | None) -> None:
        """Give a query its start, the first time from which what is stored can answer it."""
        if isinstance(new.query.window, RowsWindow):  # its rows are numbered from here on
            self.windows.begin(new, self.clock.seen_until_us)
            return
        if isinstance(new.query.window, SessionWindow):
            self.windows.begin(new, self._sessions_since(new, holders))
            holders.add(new, self.windows.whole_since(new))
            return
        covered = None if self.clock.seen_until_us is None else self._covered_since(new, holders, lane, floor_us)
        if new.begins_us is not None:  # windows before it were another one's
            covered = new.begins_us if covered is None else max(covered, new.begins_us)
        self.windows.begin(new, covered)
        holders.add(new, self.windows.whole_since(new))

    def _sessions_since(self, new: Definition, holders: Holders) -> int | None:
        """Return from when on the sessions that begin are known whole; None: all of them.

        Those that other queries have begun to keep serve a new one, too. Otherwise one that begins within a gap after
        the last row may have begun with rows before the query, so it is not answered.
        """
        if (seen_until := self.clock.seen_until_us) is None:
            return None
        if new.begins_us is not None:  # sessions before it are another definition's
            return max(new.begins_us, seen_until + new.query.window.length)
        alike = [d for d in holders.members if self._keeps_sessions(d, new)]
        if not alike:
            return seen_until + new.query.window.length
        starts = [self.windows.starts[d.id] for d in alike]
        return None if None in starts else min(start for start in starts if start is not None)

    def _keeps_sessions(self, known: Definition, new: Definition) -> bool:
        """Tell whether the sessions of a query hold all that a new one asks for; rows that failed are in none."""
        alike = known.query.window == new.query.window and _rows_of(known) == _rows_of(new)
        return alike and known.id not in self.windows.failed_us and {*known.typed.components} >= {*new.typed.components}

    def holders(self, members: Iterable[Definition]) -> Holders:
        """Tell from when on the partials that some queries have begun to need are whole."""
        holders = Holders()
        for member in members:
            if member.id in self.windows.starts:
                holders.add(member, self.windows.whole_since(member))
        return holders

    def _covered_since(self, new: Definition, holders: Holders, lane: LaneKey, floor_us: int | None) -> int | None:
        """Return from when the stored partials hold all that a new query needs; None: from the first row on.

        Of times of which no row was seen yet nothing is missing, also of those that others have no need of any more.
        """
        seen_until = self.clock.seen_until_us
        assert seen_until is not None
        held = holders.since(new)
        if held == NEVER:
            return seen_until
        since = [self.slicings.uncut_since(new.query.window, lane, seen_until), floor_us, held]
        latest = max((s for s in since if s is not None), default=None)
        whole = latest is None or self.clock.first_us is None or latest <= self.clock.first_us
        return None if whole or latest is None else min(latest, seen_until)


class Holders:
    """From when on each component is stored whole for some rows and keys, because some query needs it."""

    def __init__(self) -> None:
        """Begin without queries."""
        self._since: dict[object, dict[Component, int | None]] = {}  # by rows and keys; None: from the first row on
        self.members: list[Definition] = []

    def add(self, holder: Definition, since_us: int | None) -> None:
        """Take a query whose partials are whole since a time; None: from the first row on."""
        self.members.append(holder)
        known = self._since.setdefault(_rows_of(holder), {})
        for component in holder.typed.components:
            before = known.get(component, since_us)
            known[component] = None if before is None or since_us is None else min(before, since_us)

    def since(self, new: Definition) -> int | None:
        """Return from when all that a query needs is whole; None: from the first row; NEVER: some of it is not kept."""
        known = self._since.get(_rows_of(new), {})
        each = [known.get(component, NEVER) for component in new.typed.components]
        return max((since for since in each if since is not None), default=None)

    def lacking(self, new: Definition) -> list[str]:
        """List the aggregates of a query that nobody over its rows keeps, as SQL writes them."""
        known = self._since.get(_rows_of(new), {})
        return [str(one.aggregate) for one in new.typed.aggregates if not known.keys() >= set(one.components)]


def _rows_of(definition: Definition) -> tuple[object, ...]:
    """Return what decides which rows go into which group of a query."""
    return (definition.query.keys, condition_of(definition))
