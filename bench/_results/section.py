"""Names the parts of a section: what was asked, the command, tables and charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]  # a file of figures: machine, measurements, targets


@dataclass(frozen=True, slots=True)
class Table:
    """A table under a caption, if it has one; the columns named as words stand left, the others hold numbers."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[int, ...] = (0,)

    def __str__(self) -> str:
        marks = ["---" if place in self.words else "---:" for place in range(len(self.head))]
        lines = [f"| {' | '.join(self.head)} |", f"| {' | '.join(marks)} |"]
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join([*([self.caption, ""] if self.caption else []), *lines])


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing, the name of its file, and the words for those who do not see it."""

    name: str
    words: str
    drawing: str


@dataclass(frozen=True, slots=True)
class Section:
    """What one benchmark asked and found; its targets and its machine are the same for all and stand in the file."""

    title: str
    asked: str
    command: str
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()


Maker = Callable[[Document], Section]


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], words: tuple[int, ...] = (0,)) -> Table:
    """Make a table."""
    return Table(caption, tuple(head), tuple(tuple(row) for row in rows), words)


def whole(value: float | None) -> str:
    """Write a whole number, or nothing."""
    return "" if value is None else f"{value:,.0f}"


def mebibytes(value: int) -> str:
    """Write bytes as MiB."""
    return f"{value / 2**20:,.0f}"
