"""What queries say of plain rows: every window anew, whatever was said before; revisions, and windows of rows."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.always.combinations.expressions import Failed, Row
from tests.always.combinations.ordering import Columns, row_hash
from tests.always.combinations.queries import TABLE, Group, Query, Standing, Values

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
class Answered:
    """A stream's rows so far, and what its queries say of them."""

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
    at: int | None = None  # the clock at the last batch, heartbeat or start
    times: list[int] = field(default_factory=list)  # of all rows taken, sorted
    rows: dict[int, list[Row]] = field(default_factory=dict)  # by time, each in order
    waiting: list[Row] = field(default_factory=list)  # on time, not passed by the watermark

    def standing(self) -> list[Standing]:
        """List all that answers windows."""
        return [*self.leaving, *self.queries.values()]

    def _called(self, name: str) -> list[Standing]:
        return [standing for standing in self.standing() if standing.name == name]

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
                try:
                    found = query.answer(held, start, end)
                except Failed:
                    standing.fail(number - 1, number + window.slide)
                    continue
                self._say(standing, start, end, found, number)

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
        if standing.pause is not None and end > standing.pause.until:  # an earlier one has failed
            return
        try:
            now = standing.query.answer(self.rows_in(start, end), start, end)
        except Failed:
            standing.fail(end - 1, standing.query.window.end_after(end))
            return
        others = [group for at, group in standing.last if at == end] if standing.query.rows.chooses else []
        for group in dict.fromkeys([*groups, *(now if standing.query.rows.chooses else ()), *others]):
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
