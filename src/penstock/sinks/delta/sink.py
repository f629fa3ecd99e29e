"""Writes answers to a Delta table for each query; what a crash left is taken back, so that each is there once."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa

from penstock.errors import SinkError
from penstock.sinks.delta.columns import stored
from penstock.sinks.delta.tables import DeltaTables, delta
from penstock.sinks.parquet_by_query import each_query
from penstock.sinks.protocol import Progressing, cannot_write
from penstock.sinks.query_folders import folder_name, read_beside, write_beside
from penstock.sinks.recorded import RecordedWriter
from penstock.sinks.settings import FolderForm, TextForm, WholeForm, chosen_names
from penstock.store.faults import reached

BY_QUERY: Final = "query"
BY_DAY: Final = "query/day"
LAYOUTS: Final = (BY_QUERY, BY_DAY)
NOTES: Final = "_penstock"  # readers pass over what begins so


def _wrong_layout(text: str) -> str | None:
    """Say what a layout must be."""
    return None if text in LAYOUTS else f'must be one of {", ".join(LAYOUTS)}, not "{text}"'


class DeltaSink:
    """Writes ``<folder>/<query>``, a Delta table, to which answers are added; see docs/delta.md."""

    kind = "delta"

    def __init__(
        self,
        folder: Annotated[str | os.PathLike[str], FolderForm("where the tables go")],
        *,
        layout: Annotated[str, TextForm("query or query/day", _wrong_layout)] = BY_QUERY,
        queries: Annotated[str, TextForm("names of queries with commas between them; all if left out")] = "",
        roll_bytes: Annotated[int, WholeForm("bytes of answers that are worth a commit")] = 128 << 20,
        roll_seconds: Annotated[float, WholeForm("how long answers wait for others")] = 60.0,
    ) -> None:
        """Write into a folder, made if need be."""
        if (wrong := _wrong_layout(layout)) is not None:
            raise SinkError(f"the layout of the delta sink {wrong}")
        delta()
        self.folder, self.layout, self.queries = Path(folder), layout, queries
        self.roll_bytes, self.roll_seconds = roll_bytes, roll_seconds
        self._names = chosen_names(queries)

    def open(self, stream: str, memory: Progressing) -> DeltaWriter:
        """Open the writer of one stream."""
        return DeltaWriter(self, stream, memory)

    def wants(self, query: str) -> bool:
        """Tell whether answers of a query are written."""
        return not self._names or query.lower() in self._names

    def folder_of(self, query: str) -> Path:
        """Return where a query's table is."""
        return self.folder / folder_name(query)


class DeltaWriter(RecordedWriter):
    """Collects one stream's answers until a commit is worth it, and adds them to the tables of their queries."""

    def __init__(self, sink: DeltaSink, stream: str, memory: Progressing) -> None:
        """Go on where the last record stands; what was written behind it is taken back."""
        super().__init__(memory)
        self.sink, self._source = sink, f"{stream}-{memory.owner}"
        self.tables = DeltaTables(sink.folder, self._source, by_day=sink.layout == BY_DAY)
        self._note = sink.folder / NOTES / f"{folder_name(stream)}-{memory.owner}.json"
        self._last, self._noted = self._delivered, self._delivered
        self._waiting: dict[tuple[str, str], list[pa.Table]] = {}
        self._bytes, self._since = 0, time.monotonic()
        try:
            self._note.parent.mkdir(parents=True, exist_ok=True)
            self._take_back()
        except OSError as error:
            raise cannot_write(sink.folder, error) from error

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Take answers; write when enough have come together."""
        if number <= self._last:
            return
        for query, rows in each_query(tables):
            if self.sink.wants(query) and rows.num_rows:
                self._collect(query, rows, number)
        self._last = number
        waited = bool(self._bytes) and time.monotonic() - self._since >= self.sink.roll_seconds
        if waited or self._noted > self._delivered:  # some of it is in the tables
            self.roll()

    def _collect(self, query: str, rows: pa.Table, number: int) -> None:
        """Let answers wait for others; too many for memory are written, also in the middle of a batch."""
        if not self._bytes:
            self._since = time.monotonic()
        table = stored(rows, self._source, number, by_day=self.sink.layout == BY_DAY)
        self._waiting.setdefault((query, str(table.schema)), []).append(table)
        self._bytes += table.nbytes
        if self._bytes >= self.sink.roll_bytes:
            self._write(number)

    def roll(self) -> None:
        """Write what waits, and record how far it goes."""
        if self._last <= self._delivered:
            return
        self._write(self._last)
        reached("sink.delta.after")
        self.memory.write({"delivered": self._last})
        self._delivered = self._last

    def _write(self, number: int) -> None:
        """Add what waits to the tables; it goes up to a batch."""
        if not self._waiting:
            return
        if self._noted < number:
            write_beside(self._note, {"upto": number}, "sink.delta.reach")
            self._noted = number
        for (query, _), parts in self._waiting.items():
            reached("sink.delta.before")
            self.tables.add(query, pa.concat_tables(parts), number, self._delivered)
            reached("sink.delta.torn")
        self._waiting, self._bytes = {}, 0

    def _take_back(self) -> None:
        """Take back what a crash, or a restored state folder, left behind the record: it comes again."""
        noted = read_beside(self._note) if self._note.exists() else None
        if noted is None or int(noted["upto"]) > self._delivered:
            self.tables.take_back(self._delivered)
