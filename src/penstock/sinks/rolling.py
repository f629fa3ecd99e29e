"""Collects answers until files are worth writing, and lets files appear: hidden first, then by rename."""

from __future__ import annotations

import hashlib
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from penstock.sinks.protocol import Progressing, WriteLarge, cannot_write
from penstock.sinks.query_folders import folder_name
from penstock.sinks.recorded import FolderWriter
from penstock.store.faults import reached
from penstock.store.files import sync_together


class Rolling(Protocol):
    """What a sink of rolled files says of them."""

    folder: Path
    roll_bytes: int
    roll_seconds: float
    large_rows: int
    write_large: WriteLarge | None


@dataclass(frozen=True, slots=True)
class Draft:
    """A hidden file, and where it is to appear."""

    path: Path
    target: Path


class RollingWriter(FolderWriter):
    """Collects one stream's answers until a file is worth writing.

    A file is named by the first commit in it: one that a crash left before it was recorded is known by its number.
    """

    def __init__(self, sink: Rolling, stream: str, memory: Progressing) -> None:
        """Go on where the last record stands."""
        self.sink = sink
        self.own_stem = f"{folder_name(stream)}-{memory.owner}-"  # begins the names of files in folders of queries
        super().__init__(sink.folder, stream, memory)

    def _go_on(self) -> None:
        """Begin with no answers that wait."""
        self._waiting: dict[str, list[pa.Table]] = {}
        self._first, self._last = self._delivered + 1, self._delivered
        self._bytes, self._since, self._broken_off = 0, time.monotonic(), False

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Take answers; write when enough have come together."""
        if number > self._last:
            self._take(number, tables)

    def _take(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Take answers; more than may be in memory at once are no list."""
        if isinstance(tables, list):
            self._collect(number, tables)
        else:
            self._pass_on(number, tables)

    def _collect(self, number: int, tables: Iterable[pa.Table]) -> None:
        """Let answers wait for others, unless they are enough."""
        for table in tables:
            self._waiting.setdefault(columns_of(table.schema), []).append(table)
            self._bytes += table.nbytes
        self._last = number
        if self._bytes >= self.sink.roll_bytes or time.monotonic() - self._since >= self.sink.roll_seconds:
            self.roll()

    def _pass_on(self, number: int, tables: Iterable[pa.Table]) -> None:
        """Write answers table by table to files of its own, behind those that wait."""
        self.roll()
        self._first, self._last = number, number
        self._publish(lambda: self._streamed(tables))

    def roll(self) -> None:
        """Write what waits, make it visible, and remember how far it goes."""
        if self._last > self._delivered:
            self._publish(self._collected)

    def _publish(self, write: Callable[[], list[Draft]]) -> None:
        """Let hidden files be written, make them visible, and remember how far they go."""
        try:
            if self._broken_off:  # an earlier attempt may have left files that this one does not overwrite
                self._remove_unrecorded()
            self._broken_off = True
            reached("sink.parquet.before")
            drafts = write()
            sync_together(draft.path for draft in drafts)
            self._announce(drafts)
            for position, draft in enumerate(drafts):
                draft.path.replace(draft.target)
                if position == 0:
                    reached("sink.parquet.torn")
            sync_together({draft.target.parent for draft in drafts})
            reached("sink.parquet.after")
        except OSError as error:
            raise cannot_write(self.folder, error) from error
        self._remember(self._last)
        self._delivered, self._first = self._last, self._last + 1
        self._waiting, self._bytes, self._since, self._broken_off = {}, 0, time.monotonic(), False

    @abstractmethod
    def _collected(self) -> list[Draft]:
        """Write what waits to hidden files."""

    @abstractmethod
    def _streamed(self, tables: Iterable[pa.Table]) -> list[Draft]:
        """Write tables one after the other to hidden files."""

    def _announce(self, drafts: Sequence[Draft]) -> None:
        """Note, if need be, what is to appear."""

    @abstractmethod
    def _remember(self, delivered: int) -> None:
        """Record durably how far the sink came."""


def without_dictionaries(table: pa.Table) -> pa.Table:
    """Take the dictionaries off columns: each table would have another one."""
    return table.cast(pa.schema([_plain(field) for field in table.schema]))


def _plain(field: pa.Field) -> pa.Field:
    return pa.field(field.name, field.type.value_type) if pa.types.is_dictionary(field.type) else field


def columns_of(schema: pa.Schema) -> str:
    """Name a list of columns and types."""
    return hashlib.sha256(str([(f.name, str(f.type)) for f in schema]).encode()).hexdigest()[:8]
