"""Stands before a sink and notes when it has taken each group of answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.sinks.memory import MemorySink
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Progressing, SinkWriter

Note = Callable[[int, Sequence[pa.Table]], None]


class NotingSink(ParquetSink):
    """A Parquet sink that tells which answers it has taken: of one stream, as each stream numbers its own."""

    def __init__(self, folder: Path, note: Note, stream: str, layout: str = "columns") -> None:
        """Write into a folder: files that queries with equal columns share, or a folder for each query."""
        super().__init__(folder, layout=layout)
        self._note, self._stream = note, stream

    def open(self, stream: str, memory: Progressing) -> SinkWriter:
        """Open the writer of one stream."""
        writer: SinkWriter = super().open(stream, memory)
        return _NotingWriter(writer, self._note) if stream == self._stream else writer


class NotingMemory(MemorySink):
    """A sink in memory that tells of every group of answers that it has taken."""

    def __init__(self, note: Note) -> None:
        """Start empty."""
        super().__init__()
        self._note = note

    def open(self, stream: str, memory: Progressing) -> SinkWriter:  # type: ignore[override]
        """Open the writer of one stream."""
        return _NotingWriter(super().open(stream, memory), self._note)


class _NotingWriter:
    """Writes through another writer."""

    def __init__(self, writer: SinkWriter, note: Note) -> None:
        """Stand before a writer."""
        self._writer, self._note = writer, note

    @property
    def delivered(self) -> int:
        """Return the number of the last answers that the sink holds for good."""
        return self._writer.delivered

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Give answers on, and tell of it."""
        self._writer.deliver(number, tables)
        self._note(number, tables)

    def roll(self) -> None:
        """Make everything visible."""
        self._writer.roll()
