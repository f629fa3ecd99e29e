"""Defines streams and tables as the catalog knows them: columns, source, event time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from penstock.model.duration import MINUTE


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its Spark type in DDL spelling, and for a computed one its expression."""

    name: str
    type: str  # "bigint", "decimal(10,2)", "timestamp", "struct<a:int>" …
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream: columns, where rows come from, which column is event time and how late rows may be."""

    name: str
    columns: tuple[Column, ...]
    time: str  # name of the timestamp column
    lateness_us: int = 0
    max_ahead_us: int = 10 * MINUTE
    format: str | None = None  # None: a streaming DataFrame of the program itself
    options: Mapping[str, str] = field(default_factory=dict)
    idle_us: int = 0  # without rows for so long, the clock advances the watermark; 0: it never does
    dedup: tuple[str, ...] = ()  # columns: a row that agrees in all of them with an earlier one is a duplicate
    retain_rows_us: int = 0  # how long rows are kept for questions and new queries; 0: not at all
    since: Mapping[str, int] = field(default_factory=dict)  # columns that came later: from which event time on
    former: Mapping[str, str] = field(default_factory=dict)  # types of columns that are gone: stored rows may have them
    moved: bool = False  # rows were read from another path before

    def known_since_us(self, columns: Collection[str]) -> int | None:
        """Return from which event time on rows have all of some columns; None: all rows have them.

        Columns that came before the first row are there from the beginning of time on, in whatever files have them.
        """
        return max((us for name, us in self.since.items() if name in columns), default=None)


@dataclass(frozen=True, slots=True)
class Table:
    """A table that streams may be joined with; small enough to broadcast."""

    name: str
    columns: tuple[Column, ...]
    format: str | None = None  # None: a DataFrame or Arrow table of the program itself
    options: Mapping[str, str] = field(default_factory=dict)
