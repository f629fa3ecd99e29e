"""Admits new queries between two batches, and decides from which window on each is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import PenstockError
from penstock.evaluate.typed import Definition
from penstock.kernel.pending import Pending
from penstock.kernel.synopsis import Synopsis
from penstock.language.options import accepts_changed_files, says_changes, since_of
from penstock.model.schema import Table
from penstock.share.layout import Layout, lay_out
from penstock.share.plan import LaneKey, condition_of, is_session, tree_of
from penstock.stream.batch_job import BatchJob
from penstock.stream.due_windows import DueWindows
from penstock.stream.grouping_plan import GroupingChooser
from penstock.stream.past_reading import PastReading, ReadPast, Since
from penstock.stream.past_rows import Cut, PastRows
from penstock.stream.pauses import pause_by_hand
from penstock.stream.progress import Progress
from penstock.stream.row_failures import RowFailures
from penstock.stream.step import Step


@dataclass(frozen=True, slots=True)
class FirstWindow:
    """From which window on a query is answered; ``stored``: because partials are stored, which others may drop."""

    first_end_us: int | None  # None: no row has come yet
    why: str
    stored: bool = False


@dataclass(frozen=True, slots=True)
class NeededPast:
    """Since when rows up to a position of the source must be readable again."""

    since_us: Since
    source: str
    accept: bool  # files that have changed since they were read


class Admission:
    """Lets queries in between two batches."""

    def __init__(
        self,
        past: PastRows,
        progress: Progress,
        synopsis: Synopsis,
        computing: BatchJob,
        due_windows: DueWindows,
        failures: RowFailures,
        groupings: GroupingChooser,
    ) -> None:
        """Enter queries into a stream; ``failures`` pauses those that fail on rows of the past.

        ``groupings`` knows where lanes cannot be rebuilt from rows of the past.
        """
        self.past, self.progress, self.synopsis = past, progress, synopsis
        self.computing, self.due_windows, self.failures, self.groupings = computing, due_windows, failures, groupings

    def promise(
        self,
        new: Definition,
        others: Sequence[Definition],
        layout: Layout | None,
        needs: Callable[[NeededPast], None] = lambda needed: None,
    ) -> FirstWindow:
        """Tell from which window on a query will be answered; ``needs`` is told of the past that it needs for that."""
        progress, since = self.progress, since_of(new.query)
        if new.id in progress.windows.starts:
            return FirstWindow(progress.windows.first_ends.get(new.id), "the query exists already")
        if progress.clock.ended:
            return FirstWindow(None, "the stream has ended")
        if layout is None or progress.clock.seen_until_us is None:
            return FirstWindow(None, "no row has come yet")
        lane = LaneKey(tree_of(new, layout.plan.strategy), new.query.keys, condition_of(new))
        same_tree = [d for d in others if tree_of(d, layout.plan.strategy) == lane.tree]
        progress.enter(new, progress.holders(same_tree), lane, progress.windows.floor(lane, layout))
        covered = progress.windows.starts[new.id]
        asked = self._asked(new, covered, [d for d in same_tree if d.id != new.id])
        if isinstance(asked, _Nothing):
            self._not_before(new)
            begins = progress.clock.seen_until_us + (new.query.window.length if is_session(new) else 0)
            stored = covered != begins
            why = "stored partials cover it" if stored else "its partials are kept from now on"
            if new.begins_us is not None and new.begins_us == covered:
                why = "the windows that begin before it are answered by the definition before"
            return FirstWindow(progress.windows.next_ends[new.id], why, stored)
        progress.windows.forget(new.id)  # it is entered with its past, in one step
        self.groupings.refuse_the_past([new])
        needs(NeededPast(asked, progress.clock.source, accepts_changed_files(new.query)))
        kept = "retained rows cover it" if since is None else "it is answered from rows of the past"
        return FirstWindow(self._first_end(new, asked), kept)

    def try_out(self, new: Definition, others: Sequence[Definition], layout: Layout | None) -> list[NeededPast]:
        """Raise if a query asks for a past that it cannot have; return the past that it needs. Nothing is promised."""
        needed: list[NeededPast] = []
        try:
            self.promise(new, (*others, new), layout, needed.append)
        finally:
            self.progress.windows.forget(new.id)
        return needed

    def asking(self, new: Iterable[Definition], layout: Layout) -> dict[int, Since]:
        """Choose the queries that are entered with rows of the past, definition → since when."""
        found: dict[int, Since] = {}
        if self.progress.clock.ended:
            return found
        for definition in new if self.progress.clock.seen_until_us is not None else ():
            [tree] = [t for t in layout.plan.trees if definition.id in t.lane_of]
            others = [d for d in tree.lanes[tree.lane_key(definition)] if d.id != definition.id]
            asked = self._asked(definition, self.progress.windows.starts[definition.id], others)
            if isinstance(asked, _Nothing):
                self._not_before(definition)
            else:
                found[definition.id] = asked
        for definition in new if self.progress.clock.seen_until_us is None else ():
            self._not_before(definition)
        return found

    def read(
        self, asking: Mapping[int, Since], layout: Layout, tables: Mapping[str, Table], *, accept: bool = False
    ) -> ReadPast:
        """Compute partials of the past for the lanes of some queries, one job for all of them; nothing changes yet.

        Files that have changed are refused unless all of the queries, or who asks, ``accept`` them.
        """
        chosen = [d for d in layout.plan.definitions if d.id in asking]
        self.groupings.refuse_the_past(chosen)
        accept = accept or all(accepts_changed_files(d.query) for d in chosen)
        rebuilt = self.lanes_of(asking, layout)
        low, before = self._needed_since(asking, rebuilt), self.progress.clock.seen_until_us
        assert before is not None
        rows = self.past.rows(low, before, self.progress.clock.source, accept_changed_files=accept)
        return ReadPast(asking, rows, self.computing.of_the_past(rows, rebuilt, tables, before))

    def reading(
        self,
        asking: Mapping[int, Since],
        layout: Layout,
        tables: Mapping[str, Table],
        cut: Cut,
        computing: BatchJob,
        *,
        accept: bool,
    ) -> PastReading:
        """Prepare to read the past of some queries in parts, up to a cut."""
        self.groupings.refuse_the_past(d for d in layout.plan.definitions if d.id in asking)
        rebuilt, before = self.past_lanes(asking, layout), self.progress.clock.seen_until_us
        assert before is not None
        low = self._needed_since(asking, rebuilt)
        return PastReading(self.past, computing, asking, rebuilt, low, tables, accept, cut, before)

    def past_lanes(self, asking: Iterable[int], layout: Layout) -> Layout:
        """Lay out the lanes of some queries, with slices that rows of any part of the past compute alike."""
        return self.lanes_of(asking, layout).listed({})

    def _needed_since(self, asking: Mapping[int, Since], rebuilt: Layout) -> Since:
        """Return from when on rows are needed to rebuild lanes; None: from the first row."""
        others = [self.progress.windows.floor_of(d) for d in rebuilt.plan.definitions if d.id not in asking]
        needed = [*asking.values(), *others]
        return None if None in needed else min(since for since in needed if since is not None)

    def read_or_pause(
        self, asking: Mapping[int, Since], layout: Layout, tables: Mapping[str, Table]
    ) -> ReadPast | None:
        """Read the past for new queries; if that fails, they are paused with the reason, and the others go on."""
        asked = [d for d in layout.plan.definitions if d.id in asking]
        spread = [d for d in asked if self.groupings.has_spread(d)]  # in a catalog that an older version wrote
        for some in (spread, [d for d in asked if d not in spread]):
            try:
                past = self.read({d.id: asking[d.id] for d in some}, layout, tables) if some else None
            except PenstockError as error:
                self.pause_without_past(some, error)
                past = None
        return past

    def pause_without_past(self, definitions: Iterable[Definition], error: PenstockError) -> None:
        """Pause queries whose past cannot be had."""
        reason = f"its past is not available: {error.what}"
        for definition in definitions:
            pause_by_hand(self.progress, definition, reason)
            self.due_windows.report(definition, f" is paused: {reason}", "query paused")

    def take(self, past: ReadPast, layout: Layout, step: Step) -> Step:
        """Put partials of the past in place of what the lanes hold, and let the queries begin there."""
        computed = past.computed
        arrived = self.synopsis.rebuild(computed.layout, computed.partials, computed.bounds.edges)
        known = self.progress.clock.first_us
        if None in past.asking.values() and arrived.first_us is not None and known is not None:
            self.progress.clock.first_us = max(known, arrived.first_us)  # known as exactly as coarser slices told it
        for definition in computed.layout.plan.definitions:
            if definition.id in past.asking:
                self._begin_at(definition, past.asking[definition.id])
        self.failures.pause(past.rows, computed, arrived, layout)
        asking = tuple(sorted(past.asking))
        return replace(step, kind="backfill", computed=computed, highest=arrived.highest, backfilled=asking)

    def take_further_back(self, past: ReadPast, layout: Layout, step: Step) -> Step:
        """Rebuild the lanes of queries that answer already, and list the windows before their first one."""
        progress, watermark, chosen = self.progress, self.progress.clock.watermark_us, past.asking
        assert watermark is not None
        before = {
            number: (progress.windows.first_ends.get(number), progress.windows.next_ends.get(number))
            for number in chosen
        }
        step = self.take(past, layout, step)
        ends: dict[int, tuple[int, int]] = {}
        for number, (first_end, next_end) in before.items():
            if first_end is not None and next_end is not None and first_end <= watermark:  # it has answered already
                ends[number] = progress.windows.next_ends[number], first_end - 1
                progress.windows.next_ends[number] = next_end
                progress.windows.first_ends[number] = min(first_end, progress.windows.first_ends[number])
        due = [*self.due_windows.between(layout, ends), *self.due_windows.due(layout, watermark)]
        return replace(step, due=due)

    def take_aside(self, past: ReadPast, layout: Layout, step: Step) -> tuple[Step, list[Pending]]:
        """Rebuild the lanes of queries that answer already; return the step and the windows of the past, apart from it.

        A query that says changes only says its windows in order: those of the past are due with the step.
        """
        windows, watermark = self.progress.windows, self.progress.clock.watermark_us
        assert watermark is not None
        held = {number for number in past.asking if windows.holds(number)}
        before = {n: (windows.first_ends.get(n), windows.next_ends.get(n)) for n in past.asking if n not in held}
        step = self.take(past, layout, step)
        ends: dict[int, tuple[int, int]] = {}
        for definition in (d for d in past.computed.layout.plan.definitions if d.id in past.asking):
            windows.asked.pop(definition.id, None)
            first_end, next_end = before.get(definition.id, (None, None))
            if first_end is not None and next_end is not None:
                ends[definition.id] = self._before(definition, first_end, next_end, watermark)
        found = self.due_windows.between(layout, {n: each for n, each in ends.items() if each[0] <= each[1]})
        ordered = [one for one in found if says_changes(one.definition.query)]
        due = [*ordered, *self.due_windows.due(layout, watermark)]
        return replace(step, due=due), [one for one in found if not says_changes(one.definition.query)]

    def _before(self, definition: Definition, first_end: int, next_end: int, watermark: int) -> tuple[int, int]:
        """Let a query that began anew in the past go on where it was; return its first and last window before that."""
        windows, number = self.progress.windows, definition.id
        begins = windows.next_ends[number]
        windows.first_ends[number] = min(first_end, begins)
        if first_end <= watermark:  # it has answered already
            windows.next_ends[number] = next_end
            return begins, first_end - 1
        windows.next_ends[number] = max(begins, definition.query.window.end_after(watermark))
        return begins, min(first_end - 1, watermark)

    def going_back(self, chosen: Mapping[int, Since], layout: Layout) -> dict[int, Since]:
        """Choose the queries that have windows since a time before their first one; other lanes stay as they are."""
        found: dict[int, Since] = {}
        for definition in (d for d in layout.plan.definitions if d.id in chosen):
            since, first = chosen[definition.id], self.progress.clock.first_us
            there = self.past.stream.known_since_us(definition.typed.columns)
            since = max((us for us in (since, there) if us is not None), default=None)
            since = since if since is not None and first is not None and since > first else None
            known, new = self.progress.windows.first_ends.get(definition.id), self._first_end(definition, since)
            if known is not None and new is not None and new < known:
                found[definition.id] = since
        return found

    def needed_back(self, chosen: Mapping[int, Since], layout: Layout, *, accept: bool) -> list[NeededPast]:
        """Return the past that queries need which have windows before their first one; raise if they cannot have it.

        Files that have changed are refused unless all of the queries, or who asks, ``accept`` them.
        """
        asking = self.going_back(chosen, layout)
        asked = [d for d in layout.plan.definitions if d.id in asking]
        self.groupings.refuse_the_past(asked)
        accept = accept or all(accepts_changed_files(d.query) for d in asked)
        return [NeededPast(since, self.progress.clock.source, accept) for since in asking.values()]

    def lanes_of(self, chosen: Iterable[int], layout: Layout) -> Layout:
        """Lay out the lanes of some queries alone, sliced as in the whole plan, with all queries that share them."""
        wanted, trees = set(chosen), []
        for tree in layout.plan.trees:
            keys = {tree.lane_key(d) for d in tree.definitions if d.id in wanted}
            members = tuple(d for d in tree.definitions if tree.lane_key(d) in keys)
            if members:
                trees.append(tree.only(members))
        joins = {j.id for t in trees for d in t.definitions for j in d.query.joins}
        plan = replace(layout.plan, trees=tuple(trees), joins=tuple(j for j in layout.plan.joins if j.id in joins))
        return lay_out(plan, layout.time, None, layout.doubtful)

    def _asked(self, new: Definition, covered: Since, others: Sequence[Definition]) -> Since | _Nothing:
        """Return since when a query is to be entered with rows of the past; NOTHING: what is stored is enough."""
        since, first, seen_until = self._since(new), self.progress.clock.first_us, self.progress.clock.seen_until_us
        assert first is not None
        assert seen_until is not None
        if is_session(new):  # they begin with the rows to come
            return NOTHING
        if covered is None or new.retimed is not None:  # one at another period goes on with what the one before began
            return NOTHING
        if isinstance(since, int):
            return NOTHING if since >= min(covered, seen_until) else (since if since > first else None)
        if since == "beginning":
            return None
        if self.groupings.has_spread(new):  # kept rows are offered, not asked for, and cannot be had here
            return NOTHING
        there = self.past.stream.known_since_us(new.typed.columns)
        kept = max(us for us in (self.past.kept_since_us, new.begins_us, there) if us is not None)
        if kept >= covered or any(self._needs_before(kept, d, new) for d in others):
            return NOTHING
        return kept if kept > first or new.begins_us is not None else None

    def _needs_before(self, time_us: int, other: Definition, new: Definition) -> bool:
        """Tell whether a query of the same lane needs more of the past than is kept."""
        same = (other.query.keys, condition_of(other)) == (new.query.keys, condition_of(new))
        if not same or other.id not in self.progress.windows.starts:
            return False
        floor = self.progress.windows.floor_of(other)
        return floor is None or floor < time_us

    def _since(self, new: Definition) -> int | str | None:
        """Return since when a query asks for the past: not before all columns that it reads are there."""
        since, there = since_of(new.query), self.past.stream.known_since_us(new.typed.columns)
        if since is None or there is None:
            return since
        return max(since, there) if isinstance(since, int) else there

    def _not_before(self, new: Definition) -> None:
        """Let a query begin no earlier than it asks for, and than the columns that it reads."""
        there = self.past.stream.known_since_us(new.typed.columns)
        since = self._since(new) if there is None else (self._since(new) or there)
        covered, first = self.progress.windows.starts[new.id], self.progress.clock.first_us
        if isinstance(since, int) and (first is None or since > first) and (covered is None or covered < since):
            self.progress.windows.begin(new, since)

    def _begin_at(self, definition: Definition, since: Since) -> None:
        """Let a query begin anew at a time of the past."""
        for known in (self.progress.windows.next_ends, self.progress.windows.first_ends):
            known.pop(definition.id, None)
        self.progress.windows.begin(definition, since)

    def _first_end(self, definition: Definition, since: Since) -> int | None:
        """Return the first window end of a query that begins at a time."""
        window, first = definition.query.window, self.progress.clock.first_us
        earliest = None if first is None else window.end_after(first)
        if since is None:
            return earliest
        begun = window.end_at_or_after(since + window.length)
        return begun if earliest is None else max(begun, earliest)


class _Nothing:
    """Marks a query that asks for no past; None stands for a past from the beginning on."""


NOTHING = _Nothing()
