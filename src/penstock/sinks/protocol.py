"""Defines what a sink is: it takes answers, which are numbered, and keeps each exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from penstock.errors import SinkError

WriteLarge: TypeAlias = Callable[[pa.Table, Path, str], list[Path]]  # by executors: table, folder, name → drafts


class SinkWriter(Protocol):
    """Writes one stream's answers to a sink.

    One that raises is opened anew later and gets everything after ``delivered`` again.
    """

    @property
    def delivered(self) -> int:
        """Return the number of the last answers that the sink holds for good."""

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Take the answers of a number; their columns are query_name, window_start, window_end and the query's own.

        Answers of a query with late = 'revise' have revision and op (answer, revise or retract) after window_end.
        """

    def roll(self) -> None:
        """Make everything delivered so far visible and durable."""


class Sink(Protocol):
    """A place where answers go; it opens a writer for each stream.

    ``kind`` and ``place``, if it has them, are its name in status and progress: ``place`` is the text that tells it
    from others of its kind, such as an address without passwords. One with a ``folder`` has that for its place.
    """

    def open(self, stream: str, memory: Progressing) -> SinkWriter:
        """Open the writer of one stream; ``memory`` holds how far it came."""


@runtime_checkable
class ByExecutors(Protocol):
    """A sink that lets executors write answers of many rows."""

    write_large: WriteLarge | None  # set by an engine that has executors


@runtime_checkable
class ForEachQuery(Protocol):
    """Rows of continuous queries, which stand once for all queries that take them."""

    def for_each_query(self) -> Iterable[pa.Table]:
        """Give each row for every query that takes it, in the query's own columns."""


class KeyedTables(list[pa.Table]):
    """Answers, beside the keys of the groups of those that late rows may revise: SELECT may leave them out."""

    def __init__(self, tables: Sequence[pa.Table], keys: Sequence[pa.Table | None]) -> None:
        """Take tables, and for each the keys of its rows; None: its answers are never revised."""
        super().__init__(tables)
        self.keys = keys


class Progressing(Protocol):
    """Where a sink remembers how far it came."""

    @property
    def owner(self) -> str:
        """Name the state that the answers come from, so that two engines can share a folder."""

    def read(self) -> dict[str, object]:
        """Return what was last written; empty at first."""

    def write(self, progress: dict[str, object]) -> None:
        """Remember, durably if the engine's state is."""


def names_of(sinks: Sequence[Sink]) -> list[str]:
    """Name sinks by kind and place, as ``parquet answers``; the second of the same name is numbered."""
    names: list[str] = []
    for sink in sinks:
        kind = str(getattr(sink, "kind", type(sink).__name__.removesuffix("Sink").lower()))
        place = place_of(sink)
        name = kind if place is None else f"{kind} {place}"
        repeated = sum(known == name or known.startswith(f"{name} #") for known in names)
        names.append(f"{name} #{repeated + 1}" if repeated else name)
    return names


def place_of(sink: Sink) -> str | None:
    """Return where a sink writes; None: it does not say."""
    place, folder = getattr(sink, "place", None), getattr(sink, "folder", None)
    if place is None and folder is not None:
        return str(Path(folder).absolute())
    return place


def cannot_write(path: Path, error: OSError) -> SinkError:
    """Word a sink's failure to write."""
    return SinkError(
        f"cannot write answers to {path}: {error.strerror}",
        hint="Free space or fix permissions, then start again: answers that were not written are written then.",
    )
