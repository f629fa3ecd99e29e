"""Writes answers to Parquet files: one for each list of columns, rolled by size or time, visible by rename."""

from __future__ import annotations

import glob
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.sinks.protocol import Progressing, WriteLarge, cannot_write
from penstock.sinks.recorded import FolderWriter
from penstock.sinks.settings import FolderForm, WholeForm
from penstock.store.faults import reached
from penstock.store.files import sync_folder


class ParquetSink:
    """Writes ``<folder>/<stream>-<state>-<commit>-<columns>.parquet``; queries with equal columns share a file."""

    kind = "parquet"

    def __init__(
        self,
        folder: Annotated[str | os.PathLike[str], FolderForm("where the files go")],
        *,
        roll_bytes: Annotated[int, WholeForm("bytes of answers that are worth a file")] = 128 << 20,
        roll_seconds: Annotated[float, WholeForm("how long answers wait for others")] = 60.0,
        large_rows: Annotated[int, WholeForm("answers with more rows are written by the executors")] = 4_000_000,
    ) -> None:
        """Write into a folder, made if need be; from ``large_rows`` answers on, executors write."""
        self.folder, self.roll_bytes, self.roll_seconds, self.large_rows = (
            Path(folder),
            roll_bytes,
            roll_seconds,
            large_rows,
        )
        self.write_large: WriteLarge | None = None  # set by an engine that has executors

    def open(self, stream: str, memory: Progressing) -> ParquetWriter:
        """Open the writer of one stream."""
        return ParquetWriter(self, stream, memory)


class ParquetWriter(FolderWriter):
    """Collects one stream's answers until a file is worth writing.

    A file is named by the first commit in it: one that a crash left before it was recorded is known by its number.
    """

    def __init__(self, sink: ParquetSink, stream: str, memory: Progressing) -> None:
        """Go on where the last record stands."""
        self.sink = sink
        super().__init__(sink.folder, stream, memory)

    def _go_on(self) -> None:
        """Begin with no answers that wait."""
        self._waiting: dict[str, list[pa.Table]] = {}
        self._first, self._last = self._delivered + 1, self._delivered
        self._bytes, self._since, self._broken_off = 0, time.monotonic(), False

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Take answers; write when enough have come together."""
        if number <= self._last:
            return
        if not isinstance(tables, list):  # more than may be in memory at once
            self._pass_on(number, tables)
            return
        for table in tables:
            self._waiting.setdefault(_columns_of(table.schema), []).append(table)
            self._bytes += table.nbytes
        self._last = number
        if self._bytes >= self.sink.roll_bytes or time.monotonic() - self._since >= self.sink.roll_seconds:
            self.roll()

    def _pass_on(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Write answers table by table to files of its own, behind those that wait."""
        self.roll()
        self._first, self._last = number, number
        self._publish(lambda: self._streamed(tables))

    def roll(self) -> None:
        """Write what waits, make it visible, and remember how far it goes."""
        if self._last > self._delivered:
            self._publish(lambda: [d for columns, some in self._waiting.items() for d in self._draft(columns, some)])

    def _publish(self, write: Callable[[], list[Path]]) -> None:
        """Let hidden files be written, make them visible, and remember how far they go."""
        try:
            if self._broken_off:  # an earlier attempt may have left files that this one does not overwrite
                self._remove_unrecorded()
            self._broken_off = True
            reached("sink.parquet.before")
            drafts = write()
            for position, draft in enumerate(drafts):
                draft.replace(draft.with_name(draft.name.removeprefix(".").removesuffix(".draft")))
                if position == 0:
                    reached("sink.parquet.torn")
            if drafts:
                sync_folder(self.folder)
            reached("sink.parquet.after")
        except OSError as error:
            raise cannot_write(self.folder, error) from error
        self.memory.write({"delivered": self._last})
        self._delivered, self._first = self._last, self._last + 1
        self._waiting, self._bytes, self._since, self._broken_off = {}, 0, time.monotonic(), False

    def _remove_unrecorded(self) -> None:
        """Remove files that a crash left behind before they were recorded: their answers come again."""
        stem = glob.escape(self.stem)
        for path in self.folder.glob(f"{stem}*.parquet"):
            number = path.name.removeprefix(self.stem)[:12]
            if number.isdigit() and int(number) > self._delivered:
                path.unlink()
        for draft in self.folder.glob(f".{stem}*.draft"):
            draft.unlink()

    def _streamed(self, tables: Sequence[pa.Table]) -> list[Path]:
        """Write tables one after the other, those with equal columns to one hidden file."""
        writers: dict[str, pq.ParquetWriter] = {}
        with ExitStack() as opened:
            for table in tables:
                table = table.cast(pa.schema([_plain(field) for field in table.schema]))
                columns = _columns_of(table.schema)
                draft = self.folder / f".{self.stem}{self._first:012d}-{columns}.parquet.draft"
                if columns not in writers:
                    writers[columns] = opened.enter_context(pq.ParquetWriter(draft, table.schema, compression="zstd"))
                writers[columns].write_table(table)
        drafts = [self.folder / f".{self.stem}{self._first:012d}-{c}.parquet.draft" for c in writers]
        for draft in drafts:
            with draft.open("rb") as file:
                os.fsync(file.fileno())
        return drafts

    def _draft(self, columns: str, tables: Sequence[pa.Table]) -> list[Path]:
        """Write answers with equal columns to hidden files."""
        table = pa.concat_tables(tables)
        name = f"{self.stem}{self._first:012d}-{columns}"
        if self.sink.write_large is not None and table.num_rows >= self.sink.large_rows:
            return self.sink.write_large(table, self.folder, name)
        draft = self.folder / f".{name}.parquet.draft"
        pq.write_table(table, draft, compression="zstd")
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        return [draft]


def _plain(field: pa.Field) -> pa.Field:
    """Take the dictionary off a column: each table would have another one."""
    return pa.field(field.name, field.type.value_type) if pa.types.is_dictionary(field.type) else field


def _columns_of(schema: pa.Schema) -> str:
    """Name a list of columns and types."""
    return hashlib.sha256(str([(f.name, str(f.type)) for f in schema]).encode()).hexdigest()[:8]
