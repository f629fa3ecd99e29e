"""Answers in, kept by batch, out again by query: the durable source of results and sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import StateError
from penstock.store.files import write_whole

DEFINITION = "#definition"  # first column of every answer table: which query's answer a row is


class AnswerLog(Protocol):
    """Where a stream's answers are kept; a batch's answers are added once, whole."""

    def append(self, batch: int, tables: Sequence[pa.Table]) -> None:
        """Make a batch's answers durable."""

    def last(self) -> int | None:
        """Return the last batch whose answers are here."""

    def batches(self, after: int) -> Iterator[tuple[int, list[pa.Table]]]:
        """Read the answers of batches after a number, in order."""


def answers_of(log: AnswerLog, definitions: Iterable[int]) -> list[pa.Table]:
    """Collect the answers of some definitions, oldest batch first."""
    wanted = pa.array(sorted(definitions), pa.int64())
    found = []
    for _, tables in log.batches(-1):
        for table in tables:
            mine = table.filter(pc.is_in(table[DEFINITION], wanted))
            if mine.num_rows:
                found.append(mine.drop_columns([DEFINITION]))
    return found


class MemoryAnswerLog:
    """Keeps answers in memory."""

    def __init__(self) -> None:
        """Start empty."""
        self._batches: dict[int, list[pa.Table]] = {}
        self._last: int | None = None

    def append(self, batch: int, tables: Sequence[pa.Table]) -> None:
        """Remember a batch's answers."""
        if tables:
            self._batches[batch] = list(tables)
        self._last = batch

    def last(self) -> int | None:
        """Return the last batch whose answers are here."""
        return self._last

    def batches(self, after: int) -> Iterator[tuple[int, list[pa.Table]]]:
        """Read the answers of batches after a number, in order."""
        return ((n, t) for n, t in sorted(self._batches.items()) if n > after)


class DiskAnswerLog:
    """A folder with one file a batch: its answer tables as Arrow streams, one behind the other."""

    def __init__(self, folder: Path) -> None:
        """Open the folder, making it if need be."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._numbers = sorted(int(p.stem) for p in folder.glob("*.answers"))

    def append(self, batch: int, tables: Sequence[pa.Table]) -> None:
        """Write a batch's answers; a batch without answers leaves no file."""
        if tables:
            write_whole(self._path(batch), lambda file: _write_all(file, tables))
            self._numbers.append(batch)

    def last(self) -> int | None:
        """Return the last batch whose answers are here."""
        return self._numbers[-1] if self._numbers else None

    def batches(self, after: int) -> Iterator[tuple[int, list[pa.Table]]]:
        """Read the answers of batches after a number, in order."""
        for number in self._numbers:
            if number > after:
                yield number, _read(self._path(number))

    def _path(self, batch: int) -> Path:
        """Name a batch's answers."""
        return self.folder / f"{batch:012d}.answers"


def _write_all(file: BinaryIO, tables: Sequence[pa.Table]) -> None:
    """Write tables as Arrow streams, one behind the other."""
    for table in tables:
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)


def _read(path: Path) -> list[pa.Table]:
    """Read the Arrow streams of a file."""
    try:
        source = pa.OSFile(str(path))
        tables = []
        while source.tell() < source.size():
            tables.append(pa.ipc.open_stream(source).read_all())
        return tables
    except (OSError, pa.ArrowInvalid) as error:
        raise StateError(
            f"state file {path} is missing or damaged: {error}",
            hint="Restore the state folder from a copy, or start with an empty one.",
        ) from error
