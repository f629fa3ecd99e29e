"""Writes answers as lines of JSON, to files that roll by size."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa

from penstock.sinks.json_lines import json_lines
from penstock.sinks.protocol import Progressing, cannot_write
from penstock.sinks.recorded import FolderWriter
from penstock.sinks.settings import FolderForm, WholeForm
from penstock.store.faults import reached, tear
from penstock.store.files import sync_folder

MOST_ROWS: Final = 50_000  # that are text in memory at a time


class JsonLinesSink:
    """Appends answers to ``<folder>/<stream>-<state>-00000.jsonl`` and goes on to the next file at ``roll_bytes``."""

    kind = "jsonl"

    def __init__(
        self,
        folder: Annotated[str | os.PathLike[str], FolderForm("where the files go")],
        *,
        roll_bytes: Annotated[int, WholeForm("bytes of a file, then the next one begins")] = 64 << 20,
    ) -> None:
        """Write into a folder, made if need be."""
        self.folder, self.roll_bytes = Path(folder), roll_bytes

    def open(self, stream: str, memory: Progressing) -> JsonLinesWriter:
        """Open the writer of one stream."""
        return JsonLinesWriter(self, stream, memory)


class JsonLinesWriter(FolderWriter):
    """Writes one stream's answers; after a restart it cuts off what was written but not recorded."""

    def __init__(self, sink: JsonLinesSink, stream: str, memory: Progressing) -> None:
        """Go on where the last record stands."""
        self.sink = sink
        super().__init__(sink.folder, stream, memory)

    def _go_on(self) -> None:
        """Read where the last record stands."""
        self._file, self._length = (int(str(self.known.get(name, 0))) for name in ("file", "length"))

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Append answers and remember how long the file is."""
        if number <= self._delivered:
            return
        pieces = (table.slice(at, MOST_ROWS) for table in tables for at in range(0, table.num_rows, MOST_ROWS))
        file, length = self._append(map(json_lines, pieces)) if len(tables) else (self._file, self._length)
        self.memory.write({"delivered": number, "file": file, "length": length})
        self._delivered, self._file, self._length = number, file, length  # not before: else a retry would add it twice

    def roll(self) -> None:
        """Do nothing: every commit's lines are durable once delivered."""

    def _append(self, content: Iterable[memoryview]) -> tuple[int, int]:
        """Add lines to the current file, or to the next one if it is full; return where they end."""
        number, start = self._file, self._length
        if start >= self.sink.roll_bytes or self._size() < start:  # shorter: someone took it away
            number, start = number + 1, 0
        path = self._path(number)
        try:
            reached("sink.jsonl.before")
            created = not path.exists()
            with path.open("r+b" if start else "w+b") as file:
                file.seek(start)
                file.writelines(content)
                end = file.tell()
                tear("sink.jsonl", file, start)
                file.truncate(end)
                file.flush()
                os.fsync(file.fileno())
            if created:
                sync_folder(self.folder)
            reached("sink.jsonl.after")
        except OSError as error:
            raise cannot_write(path, error) from error
        return number, end

    def _remove_unrecorded(self) -> None:
        """Cut the current file to its recorded length, and remove later ones: what they hold comes again."""
        for path in self.folder.glob(f"{glob.escape(self.stem)}*.jsonl"):
            number = path.stem.removeprefix(self.stem)
            if number.isdigit() and int(number) > self._file:
                path.unlink()
        if self._size() > self._length:
            os.truncate(self._path(self._file), self._length)

    def _size(self) -> int:
        """Return how long the current file is; 0 if there is none."""
        try:
            return self._path(self._file).stat().st_size
        except OSError:
            return 0

    def _path(self, number: int) -> Path:
        """Name a file."""
        return self.folder / f"{self.stem}{number:05d}.jsonl"
