"""A query as SQL and as plain Python: its windows, which rows it takes into which groups, and what it says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tests.always.combinations.expressions import Aggregate, Expression, Failed, Having, Row, in_order, normal

Group = tuple[Any, ...]  # which grouping set, then the keys
Values = tuple[Any, ...]  # of all columns behind window_end
TABLE = "#table"  # what a row knows of the table: its rows by key, as they were when the row came
SECOND = 1_000_000
Kind = Literal["time", "start", "rows", "apart"]
Join = Literal["", "JOIN", "LEFT JOIN"]


@dataclass(frozen=True, slots=True)
class Window:
    """Which stretches a query is asked of: of time, in microseconds, or of rows, all together or apart by k."""

    kind: Kind
    length: int
    slide: int
    offset: int = 0

    @property
    def of_rows(self) -> bool:
        return self.kind in ("rows", "apart")

    def text(self) -> str:
        """Write it as it stands behind the stream's name; Spark's own stands in GROUP BY."""
        match self.kind:
            case "time":
                return f" [RANGE {self.length} us SLIDE {self.slide} us OFFSET {self.offset} us]"
            case "rows":
                return f" [ROWS {self.length} SLIDE {self.slide}]"
            case "apart":
                return f" [PARTITION BY k ROWS {self.length} SLIDE {self.slide}]"
        return ""

    def as_key(self) -> str:
        """Write it as Spark's function, whose windows are aligned at their starts."""
        return f"window(ts, '{self.length} microseconds', '{self.slide} microseconds', '{self.offset} microseconds')"

    @property
    def phase(self) -> int:
        """Return what its ends are modulo the slide."""
        return (self.offset + (self.length if self.kind == "start" else 0)) % self.slide

    def end_at_or_after(self, ts: int) -> int:
        return ts + (self.phase - ts) % self.slide

    def end_after(self, ts: int) -> int:
        return self.end_at_or_after(ts + 1)

    def ends_holding(self, ts: int) -> Iterator[int]:
        """List the ends of the windows that a time lies in."""
        yield from range(self.end_after(ts), ts + self.length + 1, self.slide)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Which rows of a window's answer are given, and in what order."""

    distinct: bool = False
    bare: bool = False  # the keys are not among the outputs
    order: tuple[tuple[int, bool, bool], ...] = ()  # places of outputs, whether they descend, whether NULLs come first
    limit: int | None = None
    offset: int = 0

    @property
    def chooses(self) -> bool:
        return self.distinct or self.limit is not None or self.offset > 0

    def text(self) -> str:
        """Write the clauses behind HAVING."""
        listed = [
            f"{place + 1}{' DESC' if down else ''} NULLS {'FIRST' if first else 'LAST'}"
            for place, down, first in self.order
        ]
        text = f" ORDER BY {', '.join(listed)}" if listed else ""
        text += f" LIMIT {self.limit}" if self.limit is not None else ""
        return text + (f" OFFSET {self.offset}" if self.offset else "")

    def arranged(self, answers: dict[Group, Values]) -> dict[Group, Values]:
        """Choose among a window's groups, of which ties come by keys, then by grouping set."""
        found = sorted(answers.items(), key=lambda one: (*map(in_order, one[0][1:]), one[0][0]))
        if self.distinct:
            first: dict[str, tuple[Group, Values]] = {}
            for group, values in found:
                first.setdefault(repr(values), (group, values))
            found = list(first.values())
        found = self.sorted(found, [values for _, values in found])
        return dict(found[self.offset :][: self.limit])

    def sorted(self, rows: Sequence[Any], values: Sequence[Values]) -> list[Any]:
        """Sort rows by their values; equal ones stay as they are."""
        pairs = list(zip(rows, values, strict=True))
        for place, down, first in reversed(self.order):
            null = [pair for pair in pairs if pair[1][place] is None]
            known = [pair for pair in pairs if pair[1][place] is not None]
            known = sorted(known, key=_value_at(place), reverse=down)
            pairs = [*null, *known] if first else [*known, *null]
        return [row for row, _ in pairs]


def _value_at(place: int) -> Callable[[tuple[Any, Values]], Any]:
    return lambda pair: in_order(normal(pair[1][place]))


@dataclass(frozen=True, slots=True)
class Query:
    """What a query asks."""

    window: Window
    aggregates: tuple[Aggregate, ...]
    keys: tuple[Expression, ...] = ()
    where: Expression | None = None
    having: Having | None = None
    join: Join = ""
    sets: str = ""  # ROLLUP, CUBE or GROUPING SETS
    revise_for: int | None = None
    changes: bool = False  # it says only what changes
    lifetime: int | None = None
    options: tuple[str, ...] = ()  # that change no answer
    stream: str = "s"
    names: tuple[str, ...] = ()  # of its outputs, where others read them
    rows: Arrangement = Arrangement()  # which rows of a window's answer are given

    # -- as SQL --------------------------------------------------------------------------------------------------

    def sql(self) -> str:
        return self._written(self.window.text()) + (f" WITH ({', '.join(o)})" if (o := self._options()) else "")

    def asked(self) -> str:
        """Write it as a question to be answered once, of the last stretch of time."""
        return self._written(f" [RANGE {self.window.length} us]")

    def _written(self, window: str) -> str:
        outputs = [each.sql for each in self.outputs]
        if self.sets:
            outputs.append("grouping_id()")
        if self.window.kind == "start" and window == "":
            outputs.append("window")
        listed = ", ".join(f"{sql} AS {name}" for sql, name in zip(outputs, self.columns, strict=True))
        join = f" {self.join} t USING (k)" if self.join else ""
        where = f" WHERE {self.where.sql}" if self.where else ""
        having = f" HAVING {self.having.sql}" if self.having else ""
        word = "SELECT DISTINCT" if self.rows.distinct else "SELECT"
        clauses = f"{join}{where}{self._grouped(window)}{having}{self.rows.text()}"
        return f"{word} {listed} FROM {self.stream}{window}{clauses}"

    def _grouped(self, window: str) -> str:
        keys = [key.sql for key in self.keys]
        if self.sets == "GROUPING SETS":
            keys = [f"GROUPING SETS (({keys[0]}), ({keys[1]}), ())"]
        elif self.sets:
            keys = [f"{self.sets} ({', '.join(keys)})"]
        if self.window.kind == "start" and window == "":
            keys.append(self.window.as_key())
        return f" GROUP BY {', '.join(keys)}" if keys else ""

    def _options(self) -> list[str]:
        options = list(self.options)
        if self.revise_for is not None:
            options += ["late = 'revise'", f"revise_for = '{self.revise_for} us'"]
        if self.changes:
            options.append("emit = 'change'")
        if self.lifetime is not None:
            options.append(f"lifetime = '{self.lifetime} us'")
        return options

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the columns behind the window's."""
        if self.names:
            return self.names
        named = [f"g{i}" for i in range(len(self.shown_keys))] + [f"a{i}" for i in range(len(self.aggregates))]
        return (*named, *(["level"] if self.sets else []), *(["w"] if self.window.kind == "start" else []))

    def types(self) -> list[tuple[str, str]]:
        """Tell the columns of the stream that its answers are."""
        outputs = zip(self.columns, (each.type for each in self.outputs), strict=True)
        return [("window_start", "timestamp"), ("window_end", "timestamp"), *outputs, ("ts", "timestamp")]

    @property
    def outputs(self) -> list[Expression | Aggregate]:
        """List what stands in SELECT."""
        return [*self.shown_keys, *self.aggregates]

    @property
    def shown_keys(self) -> tuple[Expression, ...]:
        return () if self.rows.bare else self.keys

    # -- as Python -----------------------------------------------------------------------------------------------

    @property
    def grouped(self) -> bool:
        return bool(self.keys) or self.window.kind == "start"

    @property
    def asks_past(self) -> bool:
        return "from = 'beginning'" in self.options

    @property
    def fails(self) -> bool:
        """Tell whether it may fail on some row or window."""
        return any(each.fails for each in self.outputs) or (self.where is not None and self.where.fails)

    def groupings(self) -> list[tuple[int, ...]]:
        """List its grouping sets, each as the numbers of the keys in it."""
        every = tuple(range(len(self.keys)))
        match self.sets:
            case "ROLLUP":
                return [every[:n] for n in range(len(every), -1, -1)]
            case "CUBE":
                return [tuple(i for i in every if bits >> i & 1) for bits in range(1 << len(every))]
            case "GROUPING SETS":
                return [(0,), (1,), ()]
        return [every]

    def taken(self, row: Row) -> list[Row]:
        """List what a row is after the join and WHERE; raise if something fails on it."""
        found = []
        for whole in self._joined(row):
            if self.where is None or self.where.value(whole) is True:
                for aggregate in self.aggregates:
                    if aggregate.of_row is not None:
                        aggregate.of_row(whole)
                found.append(whole)
        return found

    def _joined(self, row: Row) -> Sequence[Row]:
        if not self.join:
            return [row]
        matches: Sequence[Mapping[str, Any]] = row[TABLE].get(row["k"], ()) if row["k"] is not None else ()
        if not matches and self.join == "LEFT JOIN":
            matches = [{"sector": None, "factor": None}]
        return [{**row, **match} for match in matches]

    def groups_of(self, row: Row) -> set[Group]:
        """List the groups that a row goes into."""
        return {self._group(whole, keys) for whole in self.taken(row) for keys in self.groupings()}

    def _group(self, whole: Row, keys: tuple[int, ...]) -> Group:
        level = sum(1 << (len(self.keys) - 1 - i) for i in range(len(self.keys)) if i not in keys)
        return (level, *(normal(e.value(whole)) if i in keys else None for i, e in enumerate(self.keys)))

    def answer(self, rows: Sequence[Row], start: int, end: int) -> dict[Group, Values]:
        """Answer one window from its rows, which are in order; raise if that fails."""
        groups: dict[Group, list[Row]] = {} if self.grouped else {(0,): []}
        for row in rows:
            for whole in self.taken(row):
                for keys in self.groupings():
                    groups.setdefault(self._group(whole, keys), []).append(whole)
        found: dict[Group, Values] = {}
        for group, held in groups.items():
            if self.having is None or self.having.holds(held) is True:
                values = [
                    *(() if self.rows.bare else group[1:]),
                    *(normal(aggregate.value(held)) for aggregate in self.aggregates),
                ]
                values += [group[0]] if self.sets else []
                values += [{"start": start, "end": end}] if self.window.kind == "start" else []
                found[group] = tuple(values)
        return self.rows.arranged(found)


def once(query: Query, length: int) -> Query:
    """Turn a query into a question about one stretch of time."""
    window = Window("time", length, 1)
    return replace(query, window=window, revise_for=None, changes=False, lifetime=None, options=())


@dataclass(frozen=True, slots=True)
class Pause:
    """Until which end windows are still answered, and from which end on they may be again."""

    until: int
    resume: int
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a query's log of answers."""

    start: int
    end: int
    group: Group
    revision: int
    op: str
    values: Values


@dataclass(slots=True)
class Standing:
    """One definition of a query, with all that it said so far."""

    name: str
    query: Query
    created: int  # the clock then
    version: int = 1  # of the definitions of its name
    since: int | None = None  # of windows of rows: the time from which on its rows are counted
    next_end: int | None = None  # None: it was there before the first row, and no window of it is final
    first_end: int | None = None  # None: as above
    pause: Pause | None = None
    answered: set[int] = field(default_factory=set)
    skipped: list[range] = field(default_factory=list)  # ends of windows without a row, of which nothing was said
    log: list[Entry] = field(default_factory=list)
    last: dict[tuple[int, Group], Entry] = field(default_factory=dict)
    said: dict[Group, Values] = field(default_factory=dict)  # where it says only what changes
    silent: int = 0  # empty windows in a row
    revised_from: int | None = None  # windows before it are revised no more; None: all
    counted: dict[Any, list[Row]] = field(default_factory=dict)  # its rows so far, by part
    ends_before: int | None = None  # replaced: windows that start then or later are another's

    def say(self, start: int, end: int, group: Group, op: str, values: Values, number: int | None = None) -> None:
        """Say something of a window and group; ``number`` tells windows of rows apart."""
        key = end if number is None else number
        known = self.last.get((key, group))
        entry = Entry(start, end, group, 0 if known is None else known.revision + 1, op, values)
        self.log.append(entry)
        self.last[key, group] = entry

    def has_passed(self, end: int) -> bool:
        """Tell whether a window was answered, or had nothing to say."""
        return end in self.answered or any(end in ends for ends in self.skipped)

    def current(self) -> list[Entry]:
        """List what stands."""
        return [e for e in self.last.values() if e.op != "retract"]

    def fail(self, first: int, resume: int) -> None:
        """Pause it because something failed: no window that ends after ``first`` is answered."""
        if self.pause is None:
            self.pause = Pause(first, resume)
        else:
            known = self.pause
            self.pause = replace(known, until=min(first, known.until), resume=max(resume, known.resume))


__all__ = ["TABLE", "Entry", "Failed", "Group", "Pause", "Query", "Standing", "Values", "Window", "once"]
