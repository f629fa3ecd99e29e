"""The meaning of a stream in plain Python: batches and changes in, every answer, revision and count out.

It follows the words of the design, recomputes each window from plain rows, and knows nothing of the engine.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]  # "ts" in microseconds since 1970, or None
Group = tuple[Any, ...]
Values = tuple[Any, ...]

MOST_EMPTY = 10_000  # empty windows answered in a row
TERMS = ("on_time", "corrected", "late", "invalid", "duplicate")

# What the queries of the tests may say, as SQL and as Python; NULL makes a comparison NULL, which takes no row.
WHERES: dict[str, Callable[[Row], bool]] = {
    "v > 3": lambda r: r["v"] is not None and r["v"] > 3,
    "v <= 3": lambda r: r["v"] is not None and r["v"] <= 3,
    "k = 'a'": lambda r: r["k"] == "a",
    "k = 'b' AND v > 0": lambda r: r["k"] == "b" and r["v"] is not None and r["v"] > 0,
    "k IS NULL OR v < 5": lambda r: r["k"] is None or (r["v"] is not None and r["v"] < 5),
    "k = 'z'": lambda r: r["k"] == "z",
    "j = 1": lambda r: r["j"] == 1,
}
AGGREGATES: dict[str, Callable[[Sequence[Row]], Any]] = {
    "count(*)": len,
    "count(v)": lambda rows: len(_present(rows)),
    "sum(v)": lambda rows: sum(_present(rows)) if _present(rows) else None,
    "min(v)": lambda rows: min(_present(rows), default=None),
    "max(v)": lambda rows: max(_present(rows), default=None),
    "min(j)": lambda rows: min((r["j"] for r in rows), default=None),
}
HAVINGS: dict[str, Callable[[Sequence[Row]], bool]] = {
    "count(*) > 1": lambda rows: len(rows) > 1,
    "count(*) < 4": lambda rows: len(rows) < 4,
    "sum(v) > 4": lambda rows: bool(_present(rows)) and sum(_present(rows)) > 4,
    "max(v) < 8": lambda rows: bool(_present(rows)) and max(_present(rows)) < 8,
}


def _present(rows: Sequence[Row]) -> list[int]:
    return [r["v"] for r in rows if r["v"] is not None]


@dataclass(frozen=True, slots=True)
class Question:
    """What a query asks: its window, which rows, by which groups, what of them, and what late rows do."""

    range_us: int
    slide_us: int
    offset_us: int = 0
    keys: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ("count(*)",)
    where: str | None = None
    having: str | None = None
    revise_for_us: int | None = None
    options: tuple[str, ...] = ()

    def sql(self, stream: str = "s") -> str:
        window = f"[RANGE {self.range_us} us SLIDE {self.slide_us} us OFFSET {self.offset_us} us]"
        options = list(self.options)
        if self.revise_for_us is not None:
            options += ["late = 'revise'", f"revise_for = '{self.revise_for_us} us'"]
        tail = f" WITH ({', '.join(options)})" if options else ""
        return f"SELECT {self._listed()} FROM {stream} {window}{self._rest()}{tail}"

    def asked(self, stream: str = "s") -> str:
        """Write the question as one to be answered once, of the last stretch of time."""
        return f"SELECT {self._listed()} FROM {stream} [RANGE {self.range_us} us]{self._rest()}"

    def _listed(self) -> str:
        return ", ".join([*self.keys, *(f"{text} AS a{i}" for i, text in enumerate(self.aggregates))])

    def _rest(self) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        grouped = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return where + grouped + (f" HAVING {self.having}" if self.having else "")

    @property
    def names(self) -> list[str]:
        """Name the columns behind the window's."""
        return [*self.keys, *(f"a{i}" for i in range(len(self.aggregates)))]

    def end_at_or_after(self, ts: int) -> int:
        return ts + (self.offset_us - ts) % self.slide_us

    def end_after(self, ts: int) -> int:
        return self.end_at_or_after(ts + 1)

    def ends_holding(self, ts: int) -> Iterator[int]:
        """List the ends of the windows that a time lies in."""
        end = self.end_after(ts)
        while end <= ts + self.range_us:
            yield end
            end += self.slide_us

    def takes(self, row: Row) -> bool:
        return self.where is None or WHERES[self.where](row)

    def group_of(self, row: Row) -> Group:
        return tuple(row[key] for key in self.keys)

    def answer(self, rows: Sequence[Row]) -> dict[Group, Values]:
        """Answer one window from its rows."""
        groups: dict[Group, list[Row]] = {} if self.keys else {(): []}
        for row in rows:
            if self.takes(row):
                groups.setdefault(self.group_of(row), []).append(row)
        kept = HAVINGS[self.having] if self.having else (lambda rows: True)
        return {g: tuple(AGGREGATES[a](held) for a in self.aggregates) for g, held in groups.items() if kept(held)}


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
    paused: bool = False
    answered: set[int] = field(default_factory=set)
    log: list[Entry] = field(default_factory=list)
    last: dict[tuple[int, Group], Entry] = field(default_factory=dict)
    silent: int = 0  # empty windows in a row
    revised_from: int | None = None  # windows before it are revised no more; None: all

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
        self.ever: list[Standing] = []
        self.at: int | None = None  # the clock at the last batch, heartbeat or start
        self._times: list[int] = []  # of all rows taken, sorted
        self._rows: dict[int, list[Row]] = {}

    # -- queries come and go -------------------------------------------------------------------------------------

    def create(self, name: str, question: Question, first_end: int | None) -> Standing:
        """Enter a query whose first window the engine has named; None before the first row."""
        self.check_first_end(question, first_end)
        standing = Standing(name, question, first_end)
        self.queries[name] = standing
        self.ever.append(standing)
        self._answer_due(standing, self.watermark)
        return standing

    def check_first_end(self, question: Question, first_end: int | None) -> None:
        """A first window is a window, holds nothing that is not stored, and is not put off without need."""
        if (first_end is None) != (self.greatest is None):
            raise Disagreement(f"first window {first_end} with greatest ts {self.greatest}")
        if first_end is None or self.greatest is None or self.first is None:
            return
        if (first_end - question.offset_us) % question.slide_us:
            raise Disagreement(f"{first_end} is no window end of {question.sql()}")
        latest = question.end_at_or_after(self.greatest + 1 + question.range_us)
        if not self.first < first_end <= latest:
            raise Disagreement(f"first window {first_end} is not in ({self.first}, {latest}]: {question.sql()}")

    def alter(self, name: str, question: Question, first_end: int | None) -> None:
        """Put a new definition in the place of one; if that was paused, the new one is."""
        paused = self.queries.pop(name).paused
        self.create(name, question, first_end).paused = paused

    def drop(self, name: str) -> None:
        del self.queries[name]

    def pause(self, name: str) -> None:
        self.queries[name].paused = True

    def resume(self, name: str) -> None:
        """Windows that ended meanwhile are never answered, and what was answered before is revised no more."""
        standing = self.queries[name]
        if not standing.paused:
            return
        standing.paused = False
        if standing.next_end is not None and self.watermark is not None:
            standing.next_end = max(standing.next_end, standing.question.end_after(self.watermark))
            standing.revised_from = standing.next_end

    def backfill(self, name: str, since: int | None, until: int) -> int:
        """Answer the windows before a query's first one, up to ``until``; None: since the first row."""
        standing = self.queries[name]
        assert self.first is not None
        start = self.first if since is None else max(since, self.first)
        question, number = standing.question, 0
        end = question.end_after(self.first) if since is None else question.end_at_or_after(start + question.range_us)
        while end < until:
            if end not in standing.answered:
                self._answer(standing, end)
                number += 1
            end += question.slide_us
        return number

    # -- time moves ----------------------------------------------------------------------------------------------

    def batch(self, rows: Sequence[Row], clock: int) -> None:
        """Take one batch: judge its rows by the watermark before it, then move on."""
        assert not self.ended
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
        self.at = clock

    def flush(self) -> None:
        """End the stream: each query answers through its last window that holds a row."""
        self.ended = True
        if self.watermark is None:
            return
        for standing in self.queries.values():
            question = standing.question
            held = [end for ts in self._times[-1:] for end in question.ends_holding(ts)]
            if question.range_us < question.slide_us:  # the last row may lie between two windows
                held = [end for ts in set(self._times) for end in question.ends_holding(ts)]
            self._answer_due(standing, max([self.watermark, *held]))

    def _advance(self, target: int) -> None:
        """Move the watermark, never back, and answer what is final."""
        after = target if self.watermark is None else max(target, self.watermark)
        for standing in self.queries.values():
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
        if standing.next_end is None:
            low = self.first if self.watermark is None else max(self.first, self.watermark)
            if question.end_after(low) > until:
                return
            standing.next_end = question.end_after(low)
        while standing.next_end <= until:
            if not standing.paused:
                self._answer_next(standing, standing.next_end)
            standing.next_end += question.slide_us

    def _answer_next(self, standing: Standing, end: int) -> None:
        """Answer a window, unless a query without groups has said enough about a silent stream."""
        held = self.rows_in(end - standing.question.range_us, end)
        standing.silent = 0 if held else standing.silent + 1
        if standing.silent <= MOST_EMPTY:
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
        return [end for end in standing.question.ends_holding(ts) if low < end <= before and end in standing.answered]

    def _corrects(self, row: Row, before: int | None) -> bool:
        """Tell whether a late row belongs to a final window that is kept right, before WHERE."""
        assert before is not None
        return any(self._open_to_correction(standing, row["ts"], before) for standing in self.queries.values())

    def _correct(self, late: Sequence[Row], before: int | None) -> None:
        """Answer the windows and groups that late rows are in again, where their values changed."""
        for standing in self.queries.values():
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
        for group in groups:
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
