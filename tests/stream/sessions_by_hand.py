"""The meaning of sessions in plain Python: open sessions are lists of rows, and nothing is shared.

It imports nothing of the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.always.questions import AGGREGATES, HAVINGS, WHERES, Group, Row

NEVER = 1 << 62


@dataclass(frozen=True)
class Asked:
    """What a query asks for."""

    gap_us: int
    keys: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ("count(*)",)
    where: str | None = None
    having: str | None = None
    in_brackets: bool = False  # or by session_window()

    def sql(self) -> str:
        listed = ", ".join([*self.keys, *(f"{text} AS a{i}" for i, text in enumerate(self.aggregates))])
        where = f" WHERE {self.where}" if self.where else ""
        having = f" HAVING {self.having}" if self.having else ""
        if self.in_brackets:
            grouped = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
            return f"SELECT {listed} FROM s [SESSION {self.gap_us} us]{where}{grouped}{having}"
        by = ", ".join([f"session_window(ts, '{self.gap_us} us')", *self.keys])
        return f"SELECT {listed} FROM s{where} GROUP BY {by}{having}"

    def same_rows(self, other: Asked) -> bool:
        """Tell whether both put the same rows into the same sessions, and this one knows enough of them."""
        alike = (self.gap_us, self.keys, self.where) == (other.gap_us, other.keys, other.where)
        return alike and {*self.known} >= {*other.known}

    @property
    def known(self) -> set[str]:
        """Name what is stored for the aggregates and HAVING."""
        return {"count(*)", *self.aggregates, *([self.having.split(" ")[0]] if self.having else [])}


@dataclass
class Open:
    """A session that is not final."""

    rows: list[Row]
    begun: int

    @property
    def first(self) -> int:
        return min(int(row["ts"]) for row in self.rows)

    @property
    def last(self) -> int:
        return max(int(row["ts"]) for row in self.rows)


@dataclass
class Answering:
    """A definition of a query, and what it has answered."""

    asked: Asked
    start: int = -NEVER
    until: int = NEVER  # sessions that begin then are another definition's
    open: dict[Group, list[Open]] = field(default_factory=dict)
    paused: bool = False
    left: bool = False  # it was replaced, and has answered its last session
    too_late: int = 0
    said: list[tuple[Any, ...]] = field(default_factory=list)  # end, start, keys, aggregates

    def take(self, rows: Sequence[Row], judged: int) -> None:
        """Take a batch."""
        where, groups = self.asked.where, dict[Group, list[Open]]()
        for row in rows:
            if where is None or WHERES[where](row):
                begun = max(int(row["ts"]), judged - self.asked.gap_us)
                groups.setdefault(tuple(row[key] for key in self.asked.keys), []).append(Open([row], begun))
        for group, new in groups.items():
            merged = joined([*self.open.get(group, []), *new], self.asked.gap_us)
            self.too_late += sum(len(one.rows) for one in merged if one.last + self.asked.gap_us < judged)
            self.open[group] = [one for one in merged if one.last + self.asked.gap_us >= judged]

    def close(self, watermark: int) -> None:
        """Answer what the watermark has passed."""
        for group, sessions in list(self.open.items()):
            for one in sessions:
                if (end := one.last + self.asked.gap_us) < watermark:
                    self.say(group, one, end)
            self.open[group] = [one for one in sessions if one.last + self.asked.gap_us >= watermark]

    def say(self, group: Group, one: Open, end: int) -> None:
        """Answer a session."""
        kept = self.asked.having is None or HAVINGS[self.asked.having](one.rows)
        if kept and not self.paused and self.start <= one.begun < self.until:
            values = (AGGREGATES[text](one.rows) for text in self.asked.aggregates)
            self.said.append((end, one.first, *group, *values))


def joined(sessions: Sequence[Open], gap_us: int) -> list[Open]:
    """Put sessions of a group together that are at most a gap apart."""
    found: list[Open] = []
    for one in sorted(sessions, key=lambda session: session.first):
        if found and one.first - found[-1].last <= gap_us:
            found[-1] = Open([*found[-1].rows, *one.rows], min(found[-1].begun, one.begun))
        else:
            found.append(one)
    return found


class SessionModel:
    """One stream and its queries; each has the definitions that it had before too."""

    def __init__(self, lateness_us: int) -> None:
        self.lateness_us = lateness_us
        self.watermark: int | None = None
        self.seen_until: int | None = None
        self.queries: dict[str, list[Answering]] = {}

    def create(self, name: str, asked: Asked, *, alter: bool = False) -> None:
        new = Answering(asked)
        if self.seen_until is not None:
            new.start = self.seen_until + asked.gap_us
            alike = [one for one in self.all if one.asked.same_rows(asked) and not one.left]
            if alike and not alter:
                oldest = min(alike, key=lambda one: one.start)
                new.start = oldest.start
                new.open = {g: [Open(list(o.rows), o.begun) for o in some] for g, some in oldest.open.items()}
        if alter:
            for before in self.queries[name]:
                before.until = min(before.until, new.start if self.seen_until is not None else -NEVER)
        self.queries.setdefault(name, []).append(new)
        self.retire()

    def batch(self, rows: Sequence[Row]) -> None:
        valid = [row for row in rows if row["ts"] is not None]
        judged = -NEVER if self.watermark is None else self.watermark
        for one in self.all:
            one.take(valid, judged)
        if valid:
            last = max(int(row["ts"]) for row in valid)
            self.seen_until = max(last + 1, self.seen_until or 0)
            self.watermark = max(judged, self.seen_until - 1 - self.lateness_us)
        if self.watermark is not None:
            self.reach(self.watermark)

    def reach(self, watermark: int) -> None:
        self.watermark = watermark
        for one in self.all:
            one.close(watermark)
        self.retire()

    def retire(self) -> None:
        """Let definitions that were replaced leave, in order, when no session can begin for them any more."""
        for known in self.queries.values() if self.watermark is not None else ():
            for one in known:
                begun = [session.begun for some in one.open.values() for session in some]
                assert self.watermark is not None
                one.left |= min([self.watermark - one.asked.gap_us, *begun]) >= one.until
                if not one.left:
                    break

    def flush(self) -> None:
        for one in self.all:
            one.close(NEVER)

    @property
    def all(self) -> list[Answering]:
        return [one for known in self.queries.values() for one in known]

    def said(self, name: str) -> list[list[tuple[Any, ...]]]:
        """List the answers of each definition of a query in order of their ends."""
        return [sorted(one.said, key=order) for one in self.queries[name]]


def order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sort answers; NULL comes first."""
    return tuple((value is not None, 0 if value is None else value) for value in row)
