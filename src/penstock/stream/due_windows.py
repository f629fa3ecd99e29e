"""Lists the windows that are due, and moves each query's next window behind them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.due import (
    MOST_EMPTY,
    NO_SILENCE,
    DueEnds,
    EndRuns,
    Silence,
    due_ends,
    last_held_end,
)
from penstock.evaluate.windows.due_together import WindowArrays
from penstock.kernel.pending import Pending
from penstock.kernel.synopsis import Synopsis
from penstock.model.arrays import Int64Array
from penstock.model.derived import source_of
from penstock.model.instants import Clock, wall_clock_us
from penstock.model.window import RowsWindow, SessionWindow
from penstock.share.layout import Layout
from penstock.share.plan import SESSIONS, LaneKey, Plan, Tree
from penstock.store.commits import Commit
from penstock.stream.progress import Progress

Until = Callable[[Tree, Definition], int]
Floors = Mapping[LaneKey, int] | None  # the first time that each lane needs; None: times do not tell
MANY: Final = 8  # queries of one lane whose windows are sooner found together than one by one
UNKNOWN: Final = 1 << 62  # in place of a next end
LOG = logging.getLogger("penstock")


@dataclass(frozen=True, slots=True)
class _Together:
    """The queries of a lane whose windows of time are all answered, empty ones too, and follow without gaps."""

    definitions: Sequence[Definition]
    numbers: Sequence[int]
    windows: WindowArrays

    @staticmethod
    def of(members: Sequence[Definition]) -> _Together:
        """Choose those queries."""
        chosen = [d for d in members if _is_plain(d)] if len(members) >= MANY else []
        return _Together(chosen, [d.id for d in chosen], WindowArrays.of([d.query.window for d in chosen]))


def _is_plain(definition: Definition) -> bool:
    """Tell whether nothing about a query's windows has to be looked at alone."""
    window = definition.query.window
    alone = definition.query.grouped or definition.handover is not None
    return not alone and not isinstance(window, RowsWindow | SessionWindow) and window.slide <= window.length


@dataclass(slots=True)
class DueWindows:
    """Lists due windows and moves each query's next one behind them."""

    progress: Progress
    synopsis: Synopsis
    clock: Clock = wall_clock_us  # tells when windows become final
    reports: list[str] = field(default_factory=list)
    _plan: Plan | None = field(default=None, init=False)  # whose queries were put together
    _together: dict[LaneKey, _Together] = field(default_factory=dict, init=False)
    _unreleased: dict[LaneKey, int] = field(default_factory=dict, init=False)  # since when lanes that wait need slices

    def report(self, definition: Definition, text: str, event: str = "report") -> None:
        """Tell users of something about a query, in the log and at the end of a run."""
        self.tell(
            f'query "{definition.name}"{text}', source_of(definition.query.stream), event=event, query=definition.name
        )

    def tell(self, text: str, stream: str, **about: str) -> None:
        """Tell users of something about a stream."""
        self.reports.append(text)
        LOG.warning(text, extra={"event": "report", "stream": stream, **about})

    def due(self, layout: Layout, watermark_us: int) -> list[Pending]:
        """List the windows that a watermark makes final."""
        return self._due(layout, lambda tree, definition: watermark_us, self._due_together(layout.plan, watermark_us))

    def after_batch(self, layout: Layout, watermark_us: int | None) -> list[Pending]:
        """List the windows that a batch makes final; None: no row of it has a usable time."""
        return [] if watermark_us is None else self.due(layout, watermark_us)

    def needed_since(self, layout: Layout) -> Floors:
        """Return the first time that each lane needs; None: times do not tell.

        Right after a restart, a query may have been promised windows that is in no plan yet: all is kept until it is.
        """
        windows = self.progress.windows
        return None if len(windows.starts) > len(layout.plan.definitions) else windows.floors(layout)

    def releasing(self, layout: Layout, floors: Floors) -> Iterator[None]:
        """Let go of slices before the first time that each lane needs, lane by lane; those that wait longest first."""
        if floors is None:
            return
        self._unreleased = {**{key: floors[key] for key in self._unreleased if key in floors}, **floors}
        for key, floor in list(self._unreleased.items()):
            self.synopsis.expire_lane(key, floor)
            del self._unreleased[key]
            yield
        self.synopsis.expire_together(floors)
        self.progress.slicings.forget(floors, [t.name for t in layout.plan.trees])

    def needed(self, partials: pa.Table, layout: Layout) -> pa.Table:
        """Keep what windows to come need of partials that are put together: all, where whole files go."""
        return partials

    def rest(self, layout: Layout) -> list[Pending]:
        """List the windows left when the stream ends: final ones, and those that hold a row."""
        if self.progress.clock.watermark_us is None:
            return []
        return self._due(layout, self._last_end, self._due_together(layout.plan, None))

    def recorded(self, layout: Layout, commit: Commit, *, past: bool = False) -> list[Pending]:
        """List the windows that a commit found due, or of the past; what was told of them is not told again."""
        found, now_us = [], self.clock()
        for tree in layout.plan.trees:
            for definition in tree.definitions:
                for record in (commit.past if past else commit.due).get(str(definition.id), ()):
                    until = (commit.next_ends.get(str(definition.id)) or 0) - 1 if len(record) < 3 else record[2]
                    silent = record[3] if len(record) > 3 else 0
                    if len(record) > 4:  # of batches before: as they were listed then
                        firsts, counts = np.array(record[4], np.int64), np.array(record[5], np.int64)
                        due = DueEnds(EndRuns(firsts, counts, definition.query.window.slide), 0, 0)
                    else:
                        due = self._ends(tree, definition, (record[0], until), silent)
                    found += self._pending(tree, definition, due, now_us, until, silent)
        return found

    def between(self, layout: Layout, ends: Mapping[int, tuple[int, int]]) -> list[Pending]:
        """List the windows of some queries, definition → first and last end, that others' progress is not moved by."""
        found, now_us = [], self.clock()
        for tree in layout.plan.trees:
            for definition in tree.definitions:
                if definition.id in ends:
                    due = self._ends(tree, definition, ends[definition.id], 0)
                    self._tell_of(definition, due)
                    found += self._pending(tree, definition, due, now_us, ends[definition.id][1])
        return found

    def open_windows(self, layout: Layout) -> int:
        """Count the windows that hold rows and are not final."""
        watermark, number = self.progress.clock.watermark_us, 0
        if watermark is None or self.progress.clock.ended:
            return 0
        number += sum(self.progress.windows.open_sessions.get(d.id, 0) for d in layout.plan.definitions)
        for tree in layout.plan.trees:
            for definition in tree.definitions:
                if definition.id in self.progress.windows.paused or tree.space == SESSIONS:
                    continue
                last = min(self._last_end(tree, definition), self.progress.windows.last_own_end(definition))
                first = self.progress.windows.first_end(definition, last)
                if first is not None and last >= first:
                    number += (last - first) // definition.query.window.slide + 1
        return number

    def _due_together(self, plan: Plan, until_us: int | None) -> dict[int, Pending | None]:
        """List the windows of queries that need not be looked at one by one, by definition; None: none is due.

        They are due up to a time; None: up to the last one of each that holds a row.
        """
        if plan is not self._plan:
            members = (item for tree in plan.trees for item in tree.lanes.items())
            together = {lane: _Together.of(some) for lane, some in members}
            self._plan, self._together = plan, {lane: each for lane, each in together.items() if each.numbers}
        found: dict[int, Pending | None] = {}
        for lane, each in self._together.items():
            self._due_of_lane(lane, each, until_us, found)
        return found

    def _due_of_lane(
        self, lane: LaneKey, each: _Together, until_us: int | None, found: dict[int, Pending | None]
    ) -> None:
        """List the windows of one lane's queries, and move their next ends; paused ones are looked at alone."""
        windows, numbers = self.progress.windows, each.numbers
        ends, silent = self._standing(numbers)
        present, watermark = self.synopsis.presence.of(lane), self.progress.clock.watermark_us
        if until_us is None:
            assert watermark is not None
            until = each.windows.last_held_ends(present, watermark)
        else:
            until = np.full(len(numbers), until_us, np.int64)
        listed, alone = each.windows.due(ends, until, present, silent)
        found |= {numbers[place]: None for place in np.flatnonzero((ends < UNKNOWN) & ~alone).tolist()}
        before, now_us, untils = silent.tolist(), self.clock(), until.tolist()
        for place, runs in zip(listed.places.tolist(), listed.runs(), strict=True):
            one = each.definitions[place]
            found[numbers[place]] = Pending(one, lane, runs, untils[place], before[place], final_us=now_us)
        for place, number in enumerate(numbers):
            if number not in windows.first_ends and number in found:
                windows.first_ends[number] = int(ends[place])
        moved = [numbers[place] for place in listed.places.tolist()]
        windows.next_ends.update(zip(moved, listed.next_ends.tolist(), strict=True))
        self._note_silences(moved, listed.silent)

    def _standing(self, numbers: Sequence[int]) -> tuple[Int64Array, Int64Array]:
        """Return the next ends of queries, unknown of paused and held ones, and the empty windows right before."""
        windows = self.progress.windows
        ends = np.fromiter(map(windows.next_ends.get, numbers, repeat(UNKNOWN)), np.int64, len(numbers))
        silent = np.zeros(len(numbers), np.int64)
        if windows.paused or windows.silences or windows.asked:
            for place, number in enumerate(numbers):
                silent[place] = windows.silences.get(number, NO_SILENCE).empty
                ends[place] = UNKNOWN if number in windows.paused or windows.holds(number) else ends[place]
        return ends, silent

    def _note_silences(self, numbers: Sequence[int], silent: Int64Array) -> None:
        """Remember how many empty windows came last of some queries; most have none, and had none."""
        windows = self.progress.windows
        some = range(len(numbers)) if windows.silences else np.flatnonzero(silent).tolist()
        for place in some:
            number = numbers[place]
            skipped = windows.silences.get(number, NO_SILENCE).skipped
            windows.note_silence(number, Silence(int(silent[place]), skipped))

    def _due(self, layout: Layout, until: Until, known: Mapping[int, Pending | None] | None = None) -> list[Pending]:
        """List each query's windows up to a time of its own; those of some are known."""
        found, now_us, known = [], self.clock(), {} if known is None else known
        for tree in layout.plan.trees:
            if tree.space == SESSIONS:
                continue
            for definition in tree.definitions:
                if definition.id in known:
                    if (listed := known[definition.id]) is not None:
                        found.append(listed)
                    continue
                target = min(until(tree, definition), self.progress.windows.last_own_end(definition))
                first = self.progress.windows.first_end(definition, target)
                if first is None or self.progress.windows.holds(definition.id):
                    continue
                if first <= target:  # of most queries, no window ends with a batch
                    silent = self.progress.windows.silences.get(definition.id, NO_SILENCE)
                    due = self._ends(tree, definition, (first, target), silent.empty)
                    self._tell_of(definition, due)
                    self.progress.windows.next_ends[definition.id] = due.next_end_us
                    self.progress.windows.note_silence(definition.id, Silence(due.silent, silent.skipped + due.skipped))
                    found += self._pending(tree, definition, due, now_us, target, silent.empty)
                self.progress.windows.first_ends.setdefault(definition.id, first)
        return found

    def _ends(self, tree: Tree, definition: Definition, ends: tuple[int, int], silent: int) -> DueEnds:
        """List the ends of a query's windows from one time to another, ``silent`` empty windows after the last row."""
        query, present = definition.query, self.synopsis.presence.of(tree.lane_key(definition))
        return due_ends(query.window, *ends, present, empty_too=not query.grouped, silent=silent)

    def _tell_of(self, definition: Definition, due: DueEnds) -> None:
        """Report that empty windows are skipped, once for each silence."""
        if due.begun:
            rest = ", and so are the next ones until a row comes" if due.silent > MOST_EMPTY else ""
            self.report(definition, f": the stream was silent, {due.skipped:,} empty windows skipped{rest}")

    def _pending(
        self, tree: Tree, definition: Definition, due: DueEnds, final_us: int, until_us: int, silent: int = 0
    ) -> list[Pending]:
        """Say what is to be answered of a query: nothing of a paused one from its failure on."""
        window, first_row = definition.query.window, None
        if isinstance(window, RowsWindow):  # its rows are its own
            first_row = self.progress.windows.starts.get(definition.id) or 0
        lane = tree.lane_key(definition)
        found = Pending(definition, lane, due.ends, until_us, silent, first_row, final_us=final_us)
        paused = self.progress.windows.paused.get(definition.id)
        found = found if paused is None else found.upto(paused.until_us)
        return [found] if len(found.ends) else []

    def _last_end(self, tree: Tree, definition: Definition) -> int:
        """Return the later of the watermark and the end of the last window that holds a row."""
        watermark = self.progress.clock.watermark_us
        assert watermark is not None
        held = last_held_end(definition.query.window, self.synopsis.presence.of(tree.lane_key(definition)))
        return watermark if held is None else max(held, watermark)
