"""The meaning of a stream in plain Python: batches and changes in, every answer, revision and count out.

It follows the words of the design, recomputes each window from plain rows, and knows nothing of the engine.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.always.questions import Group, Question, Row, Values

MOST_EMPTY = 10_000  # empty windows answered in a row
TERMS = ("on_time", "corrected", "late", "invalid", "duplicate")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a query's log of answers."""

    end: int
    group: Group
    revision: int
    op: str
    values: Values


@dataclass(slots=True)
class Standing:
    """One definition of a query, with all that it said so far."""

    name: str
    question: Question
    next_end: int | None = None  # None: it was there before the first row, and no window of it is final
    first_end: int | None = None  # None: as above
    created: int = 0  # the clock then
    paused: bool = False
    answered: set[int] = field(default_factory=set)
    log: list[Entry] = field(default_factory=list)
    last: dict[tuple[int, Group], Entry] = field(default_factory=dict)
    silent: int = 0  # empty windows in a row
    revised_from: int | None = None  # windows before it are revised no more; None: all
    version: int = 1  # of the definitions of its name
    until: int | None = None  # it was altered: windows that begin at this time or later are its successor's

    def say(self, end: int, group: Group, op: str, values: Values) -> None:
        known = self.last.get((end, group))
        entry = Entry(end, group, 0 if known is None else known.revision + 1, op, values)
        self.log.append(entry)
        self.last[end, group] = entry

    def current(self) -> list[Entry]:
        """List what stands, by window, then group."""
        return sorted((e for e in self.last.values() if e.op != "retract"), key=place)

    def revisions(self) -> list[Entry]:
        return sorted(self.log, key=lambda e: (place(e), e.revision))


def place(entry: Entry) -> tuple[Any, ...]:
    """Order entries by window, then group, NULL first."""
    return (entry.end, tuple((v is not None, v) for v in entry.group))


class Disagreement(AssertionError):
    """What the engine said cannot be."""


class Model:
    """A stream and its queries, from plain rows."""

    def __init__(self, lateness_us: int, max_ahead_us: int, idle_us: int = 0, dedup: Sequence[str] = ()) -> None:
        self.lateness_us, self.max_ahead_us, self.idle_us, self.dedup = lateness_us, max_ahead_us, idle_us, tuple(dedup)
        self.watermark: int | None = None
        self.first: int | None = None  # smallest valid ts
        self.greatest: int | None = None
        self.ended = False
        self.counts: Counter[str] = Counter()
        self.queries: dict[str, Standing] = {}
        self.leaving: list[Standing] = []  # altered, with windows that began before the change
        self.ever: list[Standing] = []
        self.now = 0  # the clock
        self.at: int | None = None  # the clock at the last batch, heartbeat or start
        self._times: list[int] = []  # of all rows taken, sorted
        self._rows: dict[int, list[Row]] = {}

    # -- queries come and go -------------------------------------------------------------------------------------

    def create(self, name: str, question: Question, first_end: int | None) -> Standing:
        """Enter a query whose first window the engine has named; None before the first row."""
        former = [standing for standing in self.ever if standing.name == name]
        said = [end - one.question.range_us for one in former for end in one.answered]
        self.check_first_end(question, first_end, said)
        if said and first_end is not None and first_end - question.range_us <= max(said):
            raise Disagreement(f"{name} says again what it said before it was dropped: {first_end}")
        return self._enter(name, question, first_end, len(former) + 1)

    def _enter(self, name: str, question: Question, first_end: int | None, version: int) -> Standing:
        standing = Standing(name, question, first_end, first_end, self.now, version=version)
        self.queries[name] = standing
        self.ever.append(standing)
        self._answer_due(standing, self.watermark)
        return standing

    def check_first_end(self, question: Question, first_end: int | None, said: Sequence[int] = ()) -> None:
        """A first window is a window, holds nothing that is not stored, and is not put off without need.

        ``said`` are the starts of windows that a query of that name has answered.
        """
        if (first_end is None) != (self.greatest is None):
            raise Disagreement(f"first window {first_end} with greatest ts {self.greatest}")
        if first_end is None or self.greatest is None or self.first is None:
            return
        if (first_end - question.offset_us) % question.slide_us:
            raise Disagreement(f"{first_end} is no window end of {question.sql()}")
        latest = question.end_at_or_after(max([self.greatest, *said]) + 1 + question.range_us)
        if not self.first < first_end <= latest:
            raise Disagreement(f"first window {first_end} is not in ({self.first}, {latest}]: {question.sql()}")

    def alter(self, name: str, question: Question, first_end: int | None) -> None:
        """Put a new definition in the place of one, which still answers the windows that began before the change.

        If that was paused, it goes at once, and the new one is paused.
        """
        old = self.queries[name]
        if question == old.question:
            return
        del self.queries[name]
        if self.greatest is not None:
            begins = max([self.greatest, *(end - old.question.range_us for end in old.answered)]) + 1  # after a silence
            if first_end != question.end_at_or_after(begins + question.range_us):
                raise Disagreement(f"first window {first_end} of {question.sql()}, altered at {begins}")
            if not old.paused:
                old.until = begins
                self.leaving.append(old)
        self._enter(name, question, first_end, old.version + 1).paused = old.paused

    def drop(self, name: str) -> None:
        del self.queries[name]
        self.leaving = [standing for standing in self.leaving if standing.name != name]

    def pause(self, name: str) -> None:
        for standing in self._called(name):
            standing.paused = True

    def resume(self, name: str) -> None:
        """Windows that ended meanwhile are never answered, and what was answered before is revised no more."""
        for standing in self._called(name):
            if not standing.paused:
                continue
            standing.paused = False
            if standing.next_end is not None and self.watermark is not None:
                standing.next_end = max(standing.next_end, standing.question.end_after(self.watermark))
                standing.revised_from = standing.next_end

    def _called(self, name: str) -> list[Standing]:
        """List the query of a name, and those it was before, as far as they still answer."""
        return [standing for standing in self.standing() if standing.name == name]

    def standing(self) -> list[Standing]:
        """List all that answers windows."""
        return [*self.leaving, *self.queries.values()]

    def backfill(self, name: str, first_end: int, begins: int | None) -> int:
        """Answer the windows from the one named up to those answered or promised; return how many there were.

        Windows that begin at ``begins`` or later are the query's own from now on, all if it is None.
        """
        for one in self.leaving:
            if one.name == name and one.until is not None:
                one.until = min(one.until, -(1 << 62) if begins is None else begins)
        standing, watermark = self.queries[name], self.watermark
        assert watermark is not None
        assert standing.first_end is not None
        assert standing.next_end is not None
        self.check_first_end(standing.question, first_end)
        if first_end > standing.first_end:
            raise Disagreement(f"a backfill put the first window off, from {standing.first_end} to {first_end}")
        ends = range(first_end, min(standing.first_end, watermark + 1), standing.question.slide_us)
        for end in ends:
            self._answer(standing, end)
        standing.first_end = first_end
        if standing.next_end > watermark and not standing.answered - set(ends):
            standing.next_end = standing.question.end_after(max(watermark, first_end - 1))
        return len(ends)

    def outlive(self, clock: int) -> None:
        """Let the clock go on; queries whose lifetime is over end by themselves."""
        self.now = clock
        for name, standing in list(self.queries.items()):
            lifetime = standing.question.lifetime_us
            if lifetime is not None and standing.created + lifetime <= clock:
                self.drop(name)

    # -- time moves ----------------------------------------------------------------------------------------------

    def batch(self, rows: Sequence[Row], clock: int) -> None:
        """Take one batch: judge its rows by the watermark before it, then move on."""
        assert not self.ended
        self.outlive(clock)
        before = self.watermark
        self.counts["ingested"] += len(rows)
        taken = self._new_ones([row for row in rows if self._valid(row, clock)], before)
        late = [row for row in taken if before is not None and row["ts"] < before]
        corrected = [row for row in late if self._corrects(row, before)]
        self.counts["on_time"] += len(taken) - len(late)
        self.counts["corrected"] += len(corrected)
        self.counts["late"] += len(late) - len(corrected)
        for row in taken:
            insort(self._times, row["ts"])
            self._rows.setdefault(row["ts"], []).append(row)
        self.at = clock
        if taken:
            self.first, self.greatest = self._times[0], self._times[-1]
        self._correct(late, before)
        if self.greatest is not None:
            self._advance(self.greatest - self.lateness_us)

    def heartbeat(self, clock: int) -> bool:
        """Move a stream on that was idle for long enough; a clock that is set back starts the waiting anew."""
        assert self.at is not None
        self.outlive(clock)
        elapsed = clock - self.at
        if not self.idle_us or self.watermark is None or self.ended or elapsed < self.idle_us:
            self.at = min(self.at, clock)
            return False
        self.at = clock
        target = min(self.watermark + elapsed, clock - self.lateness_us)
        if target <= self.watermark:
            return False
        self._advance(target)
        return True

    def start(self, clock: int) -> None:
        """Begin to run, or go on after a stop: idleness counts from now."""
        self.at = self.now = clock

    def flush(self) -> None:
        """End the stream: each query answers through its last window that holds a row."""
        self.ended = True
        if self.watermark is None:
            return
        for standing in self.standing():
            question = standing.question
            held = [end for ts in self._times[-1:] for end in question.ends_holding(ts)]
            if question.range_us < question.slide_us:  # the last row may lie between two windows
                held = [end for ts in set(self._times) for end in question.ends_holding(ts)]
            self._answer_due(standing, max([self.watermark, *held]))

    def _advance(self, target: int) -> None:
        """Move the watermark, never back, and answer what is final."""
        after = target if self.watermark is None else max(target, self.watermark)
        for standing in self.standing():
            self._answer_due(standing, after)
        self.watermark = after

    # -- rows ----------------------------------------------------------------------------------------------------

    def _valid(self, row: Row, clock: int) -> bool:
        valid = row["ts"] is not None and row["ts"] <= clock + self.max_ahead_us
        self.counts["invalid"] += not valid
        return valid

    def _new_ones(self, rows: Sequence[Row], before: int | None) -> list[Row]:
        """Leave out the duplicates: of rows of this batch, and of those taken whose time is still open."""
        if not self.dedup:
            return list(rows)
        open_times = self._times if before is None else self._times[bisect_left(self._times, before) :]
        known = {self._key(row) for ts in set(open_times) for row in self._rows[ts]}
        taken = []
        for row in sorted(rows, key=lambda r: r["ts"]):
            key = self._key(row)
            if None not in key and key in known:
                self.counts["duplicate"] += 1
                continue
            known.add(key)
            taken.append(row)
        return taken

    def _key(self, row: Row) -> Group:
        return tuple(row[name] for name in self.dedup)

    def rows_in(self, start: int, end: int) -> list[Row]:
        """List the rows taken so far with start ≤ ts < end."""
        times = sorted(set(self._times[bisect_left(self._times, start) : bisect_left(self._times, end)]))
        return [row for ts in times for row in self._rows[ts]]

    # -- answers -------------------------------------------------------------------------------------------------

    def _answer_due(self, standing: Standing, until: int | None) -> None:
        """Answer a query's windows that end by a time; those of a paused one are passed over."""
        if until is None or self.first is None:
            return
        question = standing.question
        if standing.until is not None:
            until = min(until, standing.until - 1 + question.range_us)
        if standing.next_end is None:
            low = self.first if self.watermark is None else max(self.first, self.watermark)
            if question.end_after(low) > until:
                return
            standing.next_end = standing.first_end = question.end_after(low)
        while standing.next_end <= until:
            self._pass_next(standing, standing.next_end)
            standing.next_end += question.slide_us

    def _pass_next(self, standing: Standing, end: int) -> None:
        """Answer a window, unless it is paused, or without groups and has said enough about a silent stream."""
        held = self.rows_in(end - standing.question.range_us, end)
        standing.silent = 0 if held else standing.silent + 1
        if standing.silent <= MOST_EMPTY and not standing.paused:
            self._answer(standing, end)

    def _answer(self, standing: Standing, end: int) -> None:
        standing.answered.add(end)
        for group, values in standing.question.answer(self.rows_in(end - standing.question.range_us, end)).items():
            standing.say(end, group, "answer", values)

    def _open_to_correction(self, standing: Standing, ts: int, before: int) -> list[int]:
        """List the final, answered windows of a query that a late row may still change."""
        keep = standing.question.revise_for_us
        if keep is None or standing.paused:
            return []
        low = before - keep if standing.revised_from is None else max(before - keep, standing.revised_from - 1)
        if standing.until is not None:  # a backfill may have made windows that it answered its successor's
            before = min(before, standing.until - 1 + standing.question.range_us)
        return [end for end in standing.question.ends_holding(ts) if low < end <= before and end in standing.answered]

    def _corrects(self, row: Row, before: int | None) -> bool:
        """Tell whether a late row belongs to a final window that is kept right, before WHERE."""
        assert before is not None
        return any(self._open_to_correction(standing, row["ts"], before) for standing in self.standing())

    def _correct(self, late: Sequence[Row], before: int | None) -> None:
        """Answer the windows and groups that late rows are in again, where their values changed."""
        for standing in self.standing():
            touched: set[tuple[int, Group]] = set()
            for row in late:
                assert before is not None
                if standing.question.takes(row):
                    ends = self._open_to_correction(standing, row["ts"], before)
                    touched |= {(end, standing.question.group_of(row)) for end in ends}
            for end in sorted({end for end, _ in touched}):
                self._revise(standing, end, {group for at, group in touched if at == end})

    def _revise(self, standing: Standing, end: int, groups: set[Group]) -> None:
        now = standing.question.answer(self.rows_in(end - standing.question.range_us, end))
        others = [g for at, g in standing.last if at == end] + list(now) if standing.question.most is not None else []
        for group in dict.fromkeys([*groups, *others]):  # who is among the first depends on all
            known = standing.last.get((end, group))
            stands = known is not None and known.op != "retract"
            if group not in now:
                if known is not None and stands:
                    standing.say(end, group, "retract", known.values)
            elif known is None:
                standing.say(end, group, "answer", now[group])
            elif not stands or known.values != now[group]:
                standing.say(end, group, "revise", now[group])

    # -- what is to be seen --------------------------------------------------------------------------------------

    def ask(self, question: Question, end: int) -> list[tuple[Group, Values]]:
        """Answer a question once, of the window that ends then."""
        found = question.answer(self.rows_in(end - question.range_us, end))
        return [(e.group, e.values) for e in sorted((Entry(end, g, 0, "", v) for g, v in found.items()), key=place)]

    def law(self) -> bool:
        """Tell whether every row that came is counted in one term."""
        return self.counts["ingested"] == sum(self.counts[term] for term in TERMS)
