"""Holds, for every query of a stream, which windows it has answered, answers next, and why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.due import NO_SILENCE, Silence
from penstock.language.options import sheds
from penstock.model.window import RowsWindow, SessionWindow
from penstock.share.layout import Layout
from penstock.share.plan import LaneKey, Plan
from penstock.store.commits import AskedPast, Commit, Paused
from penstock.stream.clock import StreamClock

NEVER: Final = 1 << 62  # a time that no window ends at


@dataclass(slots=True)
class QueryWindows:
    """The windows of queries, by the number of their definition."""

    clock: StreamClock
    starts: dict[int, int | None] = field(default_factory=dict)  # from when whole; None: from the first row
    next_ends: dict[int, int] = field(default_factory=dict)  # next window end, once known
    first_ends: dict[int, int] = field(default_factory=dict)  # first window end that is answered, once known
    resumed_ends: dict[int, int] = field(default_factory=dict)  # first window end after the last pause
    failed_us: dict[int, int] = field(default_factory=dict)  # time after the last row that the query failed on
    paused: dict[int, Paused] = field(default_factory=dict)
    silences: dict[int, Silence] = field(default_factory=dict)  # empty windows, where there are any
    too_late: dict[int, int] = field(default_factory=dict)  # rows that came too late
    skipped: dict[int, int] = field(default_factory=dict)  # windows that later ones superseded
    shed: dict[int, int] = field(default_factory=dict)  # rows that it did not look at, as it sheds load
    unanswered: dict[int, int] = field(
        default_factory=dict
    )  # first end that is final and not answered, if there is one
    asked: dict[int, AskedPast] = field(default_factory=dict)  # the past that is to be read for a query
    past: dict[int, int] = field(default_factory=dict)  # first end of a backfill that is not answered yet
    past_taken: set[int] = field(default_factory=set)  # queries without a window that have the past they asked for
    operated: dict[int, int] = field(default_factory=dict)  # the last commit whose queued rows are answered
    sessions_since: dict[int, int] = field(default_factory=dict)  # the first row of a session that is not final
    open_sessions: dict[int, int] = field(default_factory=dict)  # how many are not final
    names: dict[int, str] = field(default_factory=dict)  # of queries that answer windows of time
    retimed: dict[int, int] = field(default_factory=dict)  # definition at another period → the first one of its query
    departed: dict[str, int] = field(default_factory=dict)  # name of a query that is gone → windows before it were said

    def begin(self, new: Definition, start_us: int | None) -> None:
        """Let a query begin with the first window that is wholly after its start; None: with the first row."""
        window = new.query.window
        self.starts[new.id] = start_us
        self.silences.pop(new.id, None)
        if isinstance(window, SessionWindow):
            first_us = self.clock.first_us if start_us is None else start_us
            if first_us is not None:  # the first session cannot end before
                self.next_ends[new.id] = first_us + window.gap_us
        elif start_us is not None and isinstance(
            window, RowsWindow
        ):  # its first window has as many rows as it slides by
            self.next_ends[new.id] = window.end_after(start_us)
        elif start_us is not None and self.clock.first_us is not None:
            begun = window.end_at_or_after(start_us + window.length)
            self.next_ends[new.id] = max(begun, window.end_after(self.clock.first_us))
        elif self.clock.first_us is not None:
            self.next_ends[new.id] = window.end_after(self.clock.first_us)
        if new.id in self.next_ends:
            self.first_ends[new.id] = self.next_ends[new.id]

    def forget(self, number: int) -> None:
        """Forget a definition that is gone; what it skipped is counted on by the one at another period."""
        if later := [one for one in self._alike(number) if one > number] if self.retimed else []:
            self._move_count(self.skipped, number, max(later))
            self._move_count(self.shed, number, max(later))
        self.retimed.pop(number, None)
        self.failed_us.pop(number, None)
        known: dict[int, Any]
        counted = (
            self.sessions_since,
            self.open_sessions,
            self.paused,
            self.silences,
            self.too_late,
            self.skipped,
            self.shed,
            self.unanswered,
            self.asked,
            self.past,
        )
        for known in (self.starts, self.next_ends, self.first_ends, self.resumed_ends, *counted):
            known.pop(number, None)

    def go_on(self, new: Definition) -> None:
        """Let a definition at another period count on where the one before it was."""
        if new.retimed is None:
            return
        self.retimed[new.id] = new.first
        before = max((number for number in self._alike(new.id) if number < new.id), default=None)
        if before is not None:
            self._move_count(self.skipped, before, new.id)
            self._move_count(self.shed, before, new.id)
            if before in self.too_late:
                self.too_late[new.id] = self.too_late[before]

    def has_gone_on(self, number: int) -> bool:
        """Tell whether windows of a later definition at another period are final: all of this one end before."""
        later = [one for one in self._alike(number) if one > number] if self.retimed else []
        return any(self.next_ends.get(one) != self.first_ends.get(one) for one in later)

    def _alike(self, number: int) -> list[int]:
        """List the definitions of one query at all its periods, but for itself."""
        first = self.retimed.get(number, number)
        return [one for one in {first, *self.retimed} if self.retimed.get(one, one) == first and one != number]

    @staticmethod
    def _move_count(counts: dict[int, int], before: int, after: int) -> None:
        """Count for a definition what was counted for another one."""
        if counted := counts.pop(before, 0):
            counts[after] = counts.get(after, 0) + counted

    def note_shed(self, layout: Layout, rows: int) -> None:
        """Count rows of a batch for the queries that did not look at them."""
        for definition in layout.plan.definitions:
            if sheds(definition.query):
                self.shed[definition.id] = self.shed.get(definition.id, 0) + rows

    def note_silence(self, number: int, silence: Silence) -> None:
        """Remember how many empty windows a definition had; most have none."""
        if silence != NO_SILENCE:
            self.silences[number] = silence
        else:
            self.silences.pop(number, None)

    def whole_since(self, holder: Definition) -> int | None:
        """Return from when a query's partials lack no row; None: from the first row on."""
        known = [t for t in (self.starts[holder.id], self.failed_us.get(holder.id)) if t is not None]
        return max(known, default=None)

    def first_end(self, definition: Definition, watermark_us: int) -> int | None:
        """Return the next window end of a query, or None while no window of it has ended."""
        known = self.next_ends.get(definition.id)
        if known is not None:
            return known
        if self.clock.first_us is None:
            return None
        window = definition.query.window
        first = window.end_after(self.clock.first_us)
        start = self.starts.get(definition.id)
        if start is not None:  # it asked for a time before any row came
            first = max(first, window.end_at_or_after(start + window.length))
        if self.clock.watermark_us is not None:
            first = max(first, window.end_after(self.clock.watermark_us))
        return first if first <= watermark_us else None

    def sessions_from(self, definition: Definition) -> int:
        """Return the time from which on sessions begin that a query answers: they hold no row that it failed on."""
        start, failed = self.starts.get(definition.id), self.failed_us.get(definition.id)
        begins = -NEVER if start is None else start
        return begins if failed is None else max(begins, failed + definition.query.window.length)

    def answers_next(self, number: int) -> int | None:
        """Return the end of the next window that a definition is to answer, final or not; None: not known yet."""
        return self.past.get(number, self.unanswered.get(number, self.next_ends.get(number)))

    def holds(self, number: int) -> bool:
        """Tell whether a query's windows wait until its past is read."""
        asked = self.asked.get(number)
        return asked is not None and asked.holds

    def revised_from(self, definition: Definition) -> int:
        """Return the first window end whose answer late rows may revise: none of a query that is paused."""
        if definition.id in self.paused:
            return NEVER
        return self.resumed_ends.get(definition.id, self.first_ends.get(definition.id, NEVER))

    def revised(self, layout: Layout) -> tuple[tuple[int, int, int], ...]:
        """Return for each of a layout's revising windows after, from and by which ends late rows revise answers."""
        if self.clock.watermark_us is None or not layout.revising:
            return tuple((NEVER, NEVER, NEVER) for _ in layout.revising)
        found: dict[object, tuple[int, int]] = {}
        for definition in layout.plan.definitions if layout.revising else ():
            key = definition.query.window, definition.typed.revise_us
            since, until = found.get(key, (NEVER, -NEVER))
            own = self.last_own_end(definition)  # a replaced definition and its successor follow each other
            found[key] = min(since, self.revised_from(definition)), max(until, own)
        return tuple((self.clock.watermark_us - revise, *found[window, revise]) for window, revise in layout.revising)

    def last_own_end(self, definition: Definition) -> int:
        """Return the time by which the windows end that no later definition of the query answers; NEVER: all are."""
        if definition.handover is None:
            return NEVER
        # The successor tells the first number of rows, and when its sessions begin.
        told = isinstance(definition.query.window, RowsWindow | SessionWindow)
        begins = [] if told else [definition.handover.at_us]
        successors = {definition.handover.successor, *self._later(definition)} & self.starts.keys()
        for start in (self.starts[number] for number in successors):  # a backfill may have moved it
            begins.append(-NEVER if start is None else start)
        return min((begin - 1 + definition.query.window.length for begin in begins), default=NEVER)

    def _later(self, definition: Definition) -> list[int]:
        """List all later definitions of a query: one that is altered again hands over to the last of them."""
        name = self.names.get(definition.id)
        return [number for number, known in self.names.items() if known == name and number > definition.id]

    def lost_ends(self, definition: Definition, watermark_us: int) -> tuple[int, int]:
        """Return the first and last window end of a query that late rows are too late for: final, and not revised."""
        window, start = definition.query.window, self.starts.get(definition.id)
        if isinstance(window, SessionWindow):  # those that are too late for sessions are counted as these take them
            return NEVER, -NEVER
        last = min(watermark_us, self.last_own_end(definition))
        if definition.typed.revise_us:
            last = min(last, max(watermark_us - definition.typed.revise_us, self.revised_from(definition) - 1))
        return -NEVER if start is None else window.end_at_or_after(start + window.length), last

    def floor_of(self, definition: Definition) -> int | None:
        """Return the earliest time that is still needed of a query's partials; None before the first valid row.

        While a query's first window is open, late rows may still move it, but never before the watermark.
        """
        if self._needs_nothing(definition.id):
            return self.clock.seen_until_us
        typed, following = definition.typed, self.answers_next(definition.id)
        window, watermark = typed.query.window, self.clock.watermark_us
        if isinstance(window, SessionWindow):  # a granule may begin up to a gap before the first row of a session
            since = self.sessions_since.get(definition.id)
            return None if since is None else since - window.gap_us
        if watermark is None:
            return None if following is None else following - window.length
        if following is None or typed.revise_us:
            revised = window.end_after(watermark - typed.revise_us)
            following = revised if following is None else min(revised, following)
        floor = following - window.length
        if typed.retain_us:
            floor = min(floor, watermark - typed.retain_us)
        start = self.starts.get(definition.id)  # nothing before it is whole for this query
        return floor if start is None else max(floor, start)

    def _needs_nothing(self, number: int) -> bool:
        """Tell whether a query is paused for memory, and nothing of it waits: none of its partials is needed."""
        paused = self.paused.get(number) if self.paused else None
        if paused is None or paused.kind != "for memory":
            return False
        return self.clock.seen_until_us is not None and number not in self.unanswered and number not in self.past

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

    def restore(self, commit: Commit) -> None:
        """Stand where a commit stood."""
        self.too_late = {int(k): v for k, v in commit.too_late.items()}
        self.paused = {int(k): v for k, v in commit.paused.items()}
        self.starts = {int(k): commit.starts.get(k) for k in commit.next_ends}
        self.next_ends = {int(k): v for k, v in commit.next_ends.items() if v is not None}
        self.first_ends = {int(k): v for k, v in commit.first_ends.items()}
        self.resumed_ends = {int(k): v for k, v in commit.resumed_ends.items()}
        self.silences = {int(k): Silence(*counts) for k, counts in commit.silences.items()}
        self.departed = dict(commit.departed)
        self.failed_us = {int(k): v for k, v in commit.failed.items()}
        self.skipped = {int(k): v for k, v in commit.skipped.items()}
        self.shed = {int(k): v for k, v in commit.shed.items()}
        self.asked = {int(k): v for k, v in commit.asked.items()}
        self.unanswered, self.past, self.past_taken = {}, {}, set(commit.past_taken)
        self.operated = {int(k): v for k, v in commit.operated.items()}
