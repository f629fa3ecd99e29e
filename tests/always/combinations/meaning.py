"""The meaning of streams and queries in plain Python: batches and changes in, every answer, revision and count out.

It follows the words of the design, recomputes each window from plain rows, and knows nothing of the engine.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.always.combinations.expressions import Failed, Row
from tests.always.combinations.ordering import Columns, row_hash
from tests.always.combinations.queries import TABLE, Group, Pause, Query, Standing, Values

MOST_EMPTY = 10_000  # empty windows of a silence that a query answers
TERMS = ("on_time", "corrected", "late", "invalid", "duplicate")
FOREVER = 1 << 62


class Disagreement(AssertionError):
    """What the engine said cannot be."""


@dataclass(frozen=True, slots=True)
class Nature:
    """What a stream is like."""

    columns: Columns
    lateness: int = 0
    max_ahead: int = FOREVER
    idle: int = 0
    dedup: tuple[str, ...] = ()


@dataclass
class Stream:
    """A stream and its queries, from plain rows."""

    name: str
    nature: Nature
    table: list[Mapping[Any, Any]]  # its versions, the current one last; all streams have the same list
    watermark: int | None = None
    first: int | None = None  # smallest valid ts
    greatest: int | None = None
    ended: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    queries: dict[str, Standing] = field(default_factory=dict)
    leaving: list[Standing] = field(default_factory=list)  # replaced, with windows that are not final
    ever: list[Standing] = field(default_factory=list)
    readers: list[tuple[Standing, Stream, list[int]]] = field(default_factory=list)  # streams made of answers
    at: int | None = None  # the clock at the last batch, heartbeat or start
    times: list[int] = field(default_factory=list)  # of all rows taken, sorted
    rows: dict[int, list[Row]] = field(default_factory=dict)  # by time, each in order
    waiting: list[Row] = field(default_factory=list)  # on time, not passed by the watermark

    # -- queries come and go -------------------------------------------------------------------------------------

    def create(self, name: str, query: Query, first_end: int | None, now: int) -> Standing:
        """Enter a query whose first window the engine has named; None before the first row."""
        said = [end - one.query.window.length for one in self._former(name) for end in one.answered]
        if not query.window.of_rows:
            self.check_first_end(query, first_end, [] if query.asks_past else said)
        return self._enter(name, query, first_end, now)

    def _former(self, name: str) -> list[Standing]:
        return [standing for standing in self.ever if standing.name == name]

    def _enter(self, name: str, query: Query, first_end: int | None, now: int) -> Standing:
        standing = Standing(name, query, now, len(self._former(name)) + 1)
        if query.window.of_rows:
            standing.since = None if self.greatest is None else self.greatest + 1
        else:
            standing.next_end = standing.first_end = first_end
        self.queries[name] = standing
        self.ever.append(standing)
        return standing

    def settle(self) -> None:
        """Answer what is stored for new queries."""
        for standing in self._of_time():
            self._answer_due(standing, self.watermark)
        self.lead()

    def check_first_end(self, query: Query, first_end: int | None, said: Sequence[int] = ()) -> None:
        """A first window is a window, holds nothing that is not stored, and is not put off without need.

        ``said`` are the starts of windows that a query of that name has answered; what it said is not said again.
        """
        window = query.window
        if (first_end is None) != (self.greatest is None):
            raise Disagreement(f"first window {first_end} with greatest ts {self.greatest}")
        if first_end is None or self.greatest is None or self.first is None:
            return
        if (first_end - window.phase) % window.slide:
            raise Disagreement(f"{first_end} is no window end of {query.sql()}")
        latest = window.end_at_or_after(max([self.greatest, *said]) + 1 + window.length)
        if not self.first < first_end <= latest:
            raise Disagreement(f"first window {first_end} is not in ({self.first}, {latest}]: {query.sql()}")
        if said and first_end - window.length <= max(said):
            raise Disagreement(f"{query.sql()} says again what it said before it was dropped: {first_end}")

    def alter(self, name: str, query: Query, first_end: int | None, now: int) -> None:
        """Replace a definition, which still answers the windows that began before the change.

        It goes at once if it is paused, if the new one asks for the past, and if it counts rows apart, or the new one
        does not count them alike. The new one of a query that was paused by hand is paused too.
        """
        old, new = self.queries.pop(name), query.window
        if self.greatest is not None:
            begins = self.greatest + 1
            if query.asks_past:
                self.check_first_end(query, first_end)
            elif not new.of_rows and first_end != new.end_at_or_after(begins + new.length):
                raise Disagreement(f"first window {first_end} of {query.sql()}, altered at {begins}")
            alike = old.query.window.kind == new.kind == "rows" or not old.query.window.of_rows
            if old.pause is None and alike and not query.asks_past:
                old.ends_before = begins
                self.leaving.append(old)
        self._enter(name, query, first_end, now)
        if old.pause is not None and old.pause.by_hand:
            self.pause(name)

    def standing(self) -> list[Standing]:
        """List all that answers windows."""
        return [*self.leaving, *self.queries.values()]

    def _called(self, name: str) -> list[Standing]:
        return [standing for standing in self.standing() if standing.name == name]

    def drop(self, name: str) -> None:
        del self.queries[name]
        self.leaving = [standing for standing in self.leaving if standing.name != name]

    def pause(self, name: str) -> None:
        for standing in self._called(name):
            since = -FOREVER if self.watermark is None else self.watermark
            if standing.query.window.of_rows:
                since = min(len(rows) for rows in standing.counted.values()) if standing.counted else 0
            standing.pause = standing.pause or Pause(since, since, by_hand=True)

    def resume(self, name: str) -> None:
        """Windows that ended meanwhile are never answered, and what was answered before is revised no more."""
        for standing in self._called(name):
            pause, standing.pause = standing.pause, None
            if pause is not None:
                self._go_on(standing, pause)

    def _go_on(self, standing: Standing, pause: Pause) -> None:
        window = standing.query.window
        if window.of_rows:
            standing.next_end = pause.resume
            return
        if standing.next_end is None and pause.by_hand and pause.resume == pause.until:
            return  # its first window is still open
        low = pause.resume if self.watermark is None else max(pause.resume, window.end_after(self.watermark))
        standing.next_end = window.end_at_or_after(max(low, standing.first_end or low))
        standing.revised_from = standing.next_end

    def backfill(self, name: str, first_end: int, begins: int | None) -> int:
        """Answer the windows from the one named up to those answered or promised; return how many there were.

        Windows that begin at ``begins`` or later are the query's own from now on, all if it is None.
        """
        for one in self.leaving:
            if one.name == name and one.ends_before is not None:
                one.ends_before = min(one.ends_before, -FOREVER if begins is None else begins)
        standing, watermark = self.queries[name], self.watermark
        assert watermark is not None
        assert standing.first_end is not None
        assert standing.next_end is not None
        self.check_first_end(standing.query, first_end)
        if first_end > standing.first_end:
            raise Disagreement(f"a backfill put the first window off, from {standing.first_end} to {first_end}")
        ends = range(first_end, min(standing.first_end, watermark + 1), standing.query.window.slide)
        for end in ends:
            self._answer(standing, end)
        standing.first_end = first_end
        if standing.next_end > watermark and not standing.answered - set(ends):
            standing.next_end = standing.query.window.end_after(max(watermark, first_end - 1))
        return len(ends)

    def outlive(self, clock: int) -> None:
        """Drop the queries whose lifetime is over."""
        for name, standing in list(self.queries.items()):
            if standing.query.lifetime is not None and standing.created + standing.query.lifetime <= clock:
                self.drop(name)

    # -- time moves ----------------------------------------------------------------------------------------------

    def batch(self, rows: Sequence[Row], clock: int) -> None:
        """Take one batch: judge its rows by the watermark before it, then move on."""
        assert not self.ended
        before, rows = self.watermark, [{**row, TABLE: self.table[-1]} for row in rows]
        self.counts["ingested"] += len(rows)
        taken = self._new_ones([row for row in rows if self._valid(row, clock)], before)
        late = [row for row in taken if before is not None and row["ts"] < before]
        self._pause_failing(taken)
        corrected = [row for row in late if self._corrects(row, before)]
        self.counts["on_time"] += len(taken) - len(late)
        self.counts["corrected"] += len(corrected)
        self.counts["late"] += len(late) - len(corrected)
        for row in taken:
            insort(self.times, row["ts"])
            insort(self.rows.setdefault(row["ts"], []), row, key=self._hash)
        self.waiting += [row for row in taken if before is None or row["ts"] >= before]
        self.at = clock
        if taken:
            self.first, self.greatest = self.times[0], self.times[-1]
        self._correct(late, before)
        if self.greatest is not None:
            self.advance(self.greatest - self.nature.lateness)
        self.lead()

    def heartbeat(self, clock: int) -> bool:
        """Move a stream on that was idle for long enough; a clock that is set back starts the waiting anew."""
        assert self.at is not None
        elapsed = clock - self.at
        if not self.nature.idle or self.watermark is None or self.ended or elapsed < self.nature.idle:
            self.at = min(self.at, clock)
            return False
        self.at = clock
        target = min(self.watermark + elapsed, clock - self.nature.lateness)
        if target <= self.watermark:
            return False
        self.advance(target)
        self.lead()
        return True

    def flush(self) -> None:
        """End the stream: each query answers through its last window that holds a row."""
        self.ended = True
        if self.watermark is not None:
            for standing in self._of_time():
                held = self._last_held_end(standing.query)
                self._answer_due(standing, self.watermark if held is None else max(self.watermark, held))
            self._number(FOREVER)
        self.lead()

    def _last_held_end(self, query: Query) -> int | None:
        for ts in reversed(self.times):
            if held := list(query.window.ends_holding(ts)):
                return held[-1]
        return None

    def advance(self, target: int) -> None:
        """Move the watermark, never back, and answer what is final."""
        after = target if self.watermark is None else max(target, self.watermark)
        for standing in self._of_time():
            self._answer_due(standing, after)
        self.watermark = after
        self._number(after)

    def lead(self) -> None:
        """Let the streams made of this one's answers take what is new, then the time up to which there is no more."""
        for standing, reader, taken in self.readers:
            new, taken[0] = standing.log[taken[0] :], len(standing.log)
            if new:
                rows = [[entry.start, entry.end, *entry.values, entry.end - 1] for entry in new]
                names = [name for name, _ in reader.nature.columns]
                reader.batch([dict(zip(names, values, strict=True)) for values in rows], 0)
            final = self._last_final_end(standing)
            if final is not None and not reader.ended and (reader.watermark is None or final > reader.watermark):
                reader.advance(final)
            reader.lead()

    def _last_final_end(self, standing: Standing) -> int | None:
        window = standing.query.window
        if standing.next_end is None or self.watermark is None or standing.next_end == standing.first_end:
            return None
        last = standing.next_end - window.slide
        return last if self.ended else min(last, window.end_after(self.watermark) - window.slide)

    # -- rows ----------------------------------------------------------------------------------------------------

    def _valid(self, row: Row, clock: int) -> bool:
        valid = row["ts"] is not None and row["ts"] <= clock + self.nature.max_ahead
        self.counts["invalid"] += not valid
        return valid

    def _hash(self, row: Row) -> int:
        return row_hash(row, self.nature.columns)

    def _new_ones(self, rows: Sequence[Row], before: int | None) -> list[Row]:
        """Leave out the duplicates: of rows of this batch, and of those taken whose time is still open."""
        if not self.nature.dedup:
            return list(rows)
        open_times = self.times if before is None else self.times[bisect_left(self.times, before) :]
        known = {self._key(row) for ts in set(open_times) for row in self.rows[ts]}
        taken = []
        for row in sorted(rows, key=lambda r: (r["ts"], self._hash(r))):
            key = self._key(row)
            if None not in key and key in known:
                self.counts["duplicate"] += 1
                continue
            known.add(key)
            taken.append(row)
        return taken

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.nature.dedup)

    def rows_in(self, start: int, end: int) -> list[Row]:
        """List the rows taken so far with start ≤ ts < end, in order."""
        times = sorted(set(self.times[bisect_left(self.times, start) : bisect_left(self.times, end)]))
        return [row for ts in times for row in self.rows[ts]]

    def _next_time(self, ts: int) -> int | None:
        """Return the time of the first row at a time or later."""
        place = bisect_left(self.times, ts)
        return self.times[place] if place < len(self.times) else None

    # -- answers -------------------------------------------------------------------------------------------------

    def _of_time(self) -> list[Standing]:
        return [standing for standing in self.standing() if not standing.query.window.of_rows]

    def _pause_failing(self, rows: Sequence[Row]) -> None:
        """Pause the queries that fail on a row: no window that holds one is answered."""
        for standing in self._of_time():
            failing = [row["ts"] for row in rows if _fails(standing.query, row)]
            if failing:
                window = standing.query.window
                standing.fail(min(failing), window.end_at_or_after(max(failing) + 1 + window.length))

    def _answer_due(self, standing: Standing, until: int | None) -> None:
        """Answer a query's windows that end by a time; those of a paused one are passed over."""
        window = standing.query.window
        if until is None or self.first is None:
            return
        if standing.next_end is None:
            low = self.first if self.watermark is None else max(self.first, self.watermark)
            if window.end_after(low) > until:
                return
            standing.next_end = standing.first_end = window.end_after(low)
        if standing.ends_before is not None:
            until = min(until, standing.ends_before + window.length - 1)
        while standing.next_end <= until:
            following = self._next_time(standing.next_end - window.length)
            empty = following is None or following >= standing.next_end
            standing.silent = standing.silent + 1 if empty else 0
            if empty and (standing.query.grouped or standing.silent > MOST_EMPTY):
                skip_to = window.end_after(until if following is None else min(until, following))
                if standing.pause is None:  # a late row may still be the first of such a window
                    standing.skipped.append(range(standing.next_end, skip_to, window.slide))
                standing.next_end = skip_to
                continue
            if standing.pause is None or standing.next_end <= standing.pause.until:
                self._answer(standing, standing.next_end)
            standing.next_end += window.slide

    def _answer(self, standing: Standing, end: int) -> None:
        start = end - standing.query.window.length
        try:
            found = standing.query.answer(self.rows_in(start, end), start, end)
        except Failed:
            standing.fail(end - 1, standing.query.window.end_after(end))
            return
        standing.answered.add(end)
        self._say(standing, start, end, found)

    def _say(
        self, standing: Standing, start: int, end: int, found: dict[Group, Values], number: int | None = None
    ) -> None:
        for group, values in found.items():
            if standing.query.changes:
                if standing.said.get(group) == values:
                    continue
                standing.said[group] = values
            standing.say(start, end, group, "answer", values, number)

    # -- windows of rows -----------------------------------------------------------------------------------------

    def _number(self, before: int) -> None:
        """Count the rows that the watermark has passed, and answer every m-th row; they join the table of now."""
        passed = [{**row, TABLE: self.table[-1]} for row in self.waiting if row["ts"] < before]
        passed.sort(key=lambda row: (row["ts"], self._hash(row)))
        self.waiting = [row for row in self.waiting if row["ts"] >= before]
        for standing in self.standing():
            if standing.query.window.of_rows:
                self._count(standing, [r for r in passed if standing.since is None or r["ts"] >= standing.since])

    def _count(self, standing: Standing, rows: Sequence[Row]) -> None:
        query, window = standing.query, standing.query.window
        place = {id(row): len(standing.counted.get("", ())) + i for i, row in enumerate(rows)}
        failing = [place[id(row)] for row in rows if _fails(query, row)]
        if failing:
            standing.fail(min(failing), -(-(max(failing) + 1 + window.length) // window.slide) * window.slide)
        for row in rows:
            part = standing.counted.setdefault(row["k"] if window.kind == "apart" else "", [])
            part.append(row)
            number = len(part)
            if number % window.slide or (standing.next_end is not None and number < standing.next_end):
                continue
            held = part[-window.length :]
            start, end = held[0]["ts"], held[-1]["ts"]
            if standing.ends_before is not None and start >= standing.ends_before:
                continue  # another's
            if standing.pause is None or (window.kind == "rows" and number <= standing.pause.until):
                self._say(standing, start, end, query.answer(held, start, end), number)

    # -- corrections ---------------------------------------------------------------------------------------------

    def _open_to_correction(self, standing: Standing, ts: int, before: int) -> list[int]:
        """List the final, answered windows of a query that a late row may still change."""
        keep = standing.query.revise_for
        if keep is None or standing.pause is not None:
            return []
        low = before - keep if standing.revised_from is None else max(before - keep, standing.revised_from - 1)
        ends = standing.query.window.ends_holding(ts)
        return [end for end in ends if low < end <= before and standing.has_passed(end)]

    def _corrects(self, row: Row, before: int | None) -> bool:
        """Tell whether a late row belongs to a final window that is kept right, before WHERE."""
        assert before is not None
        return any(self._open_to_correction(standing, row["ts"], before) for standing in self._of_time())

    def _correct(self, late: Sequence[Row], before: int | None) -> None:
        """Answer the windows and groups that late rows are in again, where their values changed."""
        for standing in self._of_time():
            touched: set[tuple[int, Group]] = set()
            for row in late:
                assert before is not None
                if ends := self._open_to_correction(standing, row["ts"], before):
                    touched |= {(end, group) for end in ends for group in standing.query.groups_of(row)}
            for end in sorted({end for end, _ in touched}):
                self._revise(standing, end, {group for at, group in touched if at == end})

    def _revise(self, standing: Standing, end: int, groups: set[Group]) -> None:
        start = end - standing.query.window.length
        now = standing.query.answer(self.rows_in(start, end), start, end)
        for group in groups:
            known = standing.last.get((end, group))
            stands = known is not None and known.op != "retract"
            if group not in now:
                if known is not None and stands:
                    standing.say(start, end, group, "retract", known.values)
            elif known is None:
                standing.say(start, end, group, "answer", now[group])
            elif not stands or known.values != now[group]:
                standing.say(start, end, group, "revise", now[group])

    def law(self) -> bool:
        """Tell whether every row that came is counted in one term."""
        return self.counts["ingested"] == sum(self.counts[term] for term in TERMS)


def _fails(query: Query, row: Row) -> bool:
    try:
        query.taken(row)
    except Failed:
        return True
    return False
