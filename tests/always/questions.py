"""What the queries of these tests may ask, as SQL and as plain Python over plain rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]  # "ts" in microseconds since 1970, or None
Group = tuple[Any, ...]
Values = tuple[Any, ...]

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
    lifetime_us: int | None = None
    options: tuple[str, ...] = ()  # that change no answer of this query
    most: int | None = None  # groups of a window that are answered: those of greatest first aggregate

    def sql(self, stream: str = "s") -> str:
        window = f"[RANGE {self.range_us} us SLIDE {self.slide_us} us OFFSET {self.offset_us} us]"
        options = list(self.options)
        if self.revise_for_us is not None:
            options += ["late = 'revise'", f"revise_for = '{self.revise_for_us} us'"]
        if self.lifetime_us is not None:
            options.append(f"lifetime = '{self.lifetime_us} us'")
        tail = f" WITH ({', '.join(options)})" if options else ""
        return f"SELECT {self._listed()} FROM {stream} {window}{self._joined()}{self._rest()}{tail}"

    def asked(self, stream: str = "s") -> str:
        """Write the question as one to be answered once, of the last stretch of time."""
        return f"SELECT {self._listed()} FROM {stream} [RANGE {self.range_us} us]{self._rest()}"

    def _joined(self) -> str:
        return ""

    def _listed(self) -> str:
        return ", ".join([*self.keys, *(f"{text} AS a{i}" for i, text in enumerate(self.aggregates))])

    def _rest(self) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        grouped = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        first = f" ORDER BY a0 DESC LIMIT {self.most}" if self.most is not None else ""
        return where + grouped + (f" HAVING {self.having}" if self.having else "") + first

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

    def aggregate(self, text: str) -> Callable[[Sequence[Row]], Any]:
        return AGGREGATES[text]

    def answer(self, rows: Sequence[Row]) -> dict[Group, Values]:
        """Answer one window from its rows."""
        groups: dict[Group, list[Row]] = {} if self.keys else {(): []}
        for row in rows:
            if self.takes(row):
                groups.setdefault(self.group_of(row), []).append(row)
        kept = HAVINGS[self.having] if self.having else (lambda rows: True)
        found = {g: tuple(self.aggregate(a)(held) for a in self.aggregates) for g, held in groups.items() if kept(held)}
        return found if self.most is None else dict(sorted(found.items(), key=_rank)[: self.most])


def _rank(answer: tuple[Group, Values]) -> tuple[Any, ...]:
    """Order answers by their first aggregate, the greatest first and NULL last, then by group, NULL first."""
    group, (first, *_) = answer
    return first is None, 0 if first is None else -first, tuple((v is not None, v) for v in group)
