"""Writes the answers of each query to Parquet files in a folder of its own: the layouts ``query`` and ``query/day``.

What is written and not recorded when the process dies is found by a note in the sink's folder, which is there before
the files are: they come again, and are removed or cut back before.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.model.arrays import Int64Array
from penstock.model.instants import DAY_US, format_day
from penstock.sinks.growing_files import grown_rows, small_file
from penstock.sinks.parquet_encodings import encoded
from penstock.sinks.protocol import ForEachQuery, KeyedTables, Progressing
from penstock.sinks.query_folders import QueryFolders, write_beside
from penstock.sinks.rolling import Draft, Rolling, RollingWriter, columns_of, without_dictionaries
from penstock.sinks.unrecorded import drafts_folder, reach_file, remove_of_queries, remove_together
from penstock.store.files import sync_together

MOST_OPEN: Final = 100  # files that are written at the same time
QUERY: Final = "query_name"
TIMES: Final = ("window_start", "event_time", "window_end")  # the first of them that there is says the day


class QueryFolderWriter(RollingWriter):
    """Writes ``<folder>/<query>/<stream>-<state>-<commit>-<columns>.parquet``; small files grow."""

    def __init__(self, sink: Rolling, stream: str, memory: Progressing, layout: str, *, by_day: bool) -> None:
        """Go on where the last record stands."""
        self.layout, self.by_day = layout, by_day
        super().__init__(sink, stream, memory)

    def _go_on(self) -> None:
        """Begin with no answers that wait."""
        super()._go_on()
        self.folders = QueryFolders(self.folder, self.own_stem, by_day=self.by_day)
        self.drafts = drafts_folder(self.folder, self.own_stem)
        self._newest: dict[tuple[Path, str], Path | None] = {}
        self._named: set[Path] = set()  # folders whose names are durable

    def _take(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Take answers; those that are too many to wait together are written as they are read."""
        each: Iterable[pa.Table] = tables.for_each_query() if isinstance(tables, ForEachQuery) else tables
        if isinstance(each, list):
            self._collect(number, each)
            return
        size, held, rest = 0, list[pa.Table](), iter(each)
        for table in rest:
            held.append(table)
            if (size := size + table.nbytes) >= self.sink.roll_bytes:
                self._pass_on(number, itertools.chain(held, rest))
                return
        self._collect(number, held)

    def _collected(self) -> list[Draft]:
        """Write a file for each query, day and list of columns, with what a small one before it holds."""
        self.drafts.mkdir(exist_ok=True)
        drafts: list[Draft] = []
        for tables in self._waiting.values():
            for query, rows in by_query(pa.concat_tables(tables)):
                for folder, part in self._parted(query, columns_of(rows.schema), rows):
                    drafts += self._draft(folder, columns_of(part.schema), part, len(drafts))
        return drafts

    def _parted(self, query: str, columns: str, rows: pa.Table) -> Iterator[tuple[Path, pa.Table]]:
        """Give the folders of a query's rows, by day if asked."""
        place = self.folders.of(query, columns, rows.schema)
        if place.day is None:
            yield place.path, rows
            return
        for day, part in by_day(rows):
            folder = place.path / f"{place.day}={day}"
            folder.mkdir(exist_ok=True)
            yield folder, part

    def _draft(self, folder: Path, columns: str, rows: pa.Table, number: int) -> list[Draft]:
        """Write rows to hidden files that are to appear in a folder."""
        target = folder / f"{self.own_stem}{self._first:012d}-{columns}.parquet"
        if self.sink.write_large is not None and rows.num_rows >= self.sink.large_rows:
            parts = self.sink.write_large(rows, self.drafts, f"{number:06d}")
            return [Draft(part, target.with_stem(f"{target.stem}-{n:03d}")) for n, part in enumerate(parts)]
        newest = self._newest_of(folder, columns)
        before = small_file(newest) if newest is not None else None
        grown = grown_rows(rows, self._last) if before is None else before.with_more(rows, self._last)
        draft = self.drafts / f"{number:06d}.draft"
        grown.write(draft)
        target = newest if newest is not None and before is not None else target
        self._newest[folder, columns] = target
        return [Draft(draft, target)]

    def _newest_of(self, folder: Path, columns: str) -> Path | None:
        """Return the last file with some columns that this writer, or one before it, wrote into a folder."""
        if (folder, columns) not in self._newest:
            ending = f"-{columns}.parquet"
            named = [name for name in os.listdir(folder) if name.startswith(self.own_stem) and name.endswith(ending)]
            self._newest[folder, columns] = folder / max(named) if named else None
        return self._newest[folder, columns]

    def _streamed(self, tables: Iterable[pa.Table]) -> list[Draft]:
        """Write tables one after the other to files of their own, some at the same time."""
        self.drafts.mkdir(exist_ok=True)
        files = OpenFiles(self.drafts)
        with files.opened:
            for table in tables:
                for query, rows in by_query(table):
                    for folder, part in self._parted(query, columns_of(rows.schema), rows):
                        files.write(folder / f"{self.own_stem}{self._first:012d}-{columns_of(part.schema)}", part)
        return files.drafts

    def _announce(self, drafts: Sequence[Draft]) -> None:
        """Note which files are to appear or to grow."""
        self.folders.tell()
        folders = {draft.target.parent for draft in drafts}
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        sync_together({folder.parent for folder in folders - self._named})
        self._named |= folders
        names = [str(draft.target.relative_to(self.folder)) for draft in drafts]
        told = {"after": self._delivered, "upto": self._last, "files": names}
        if drafts:
            write_beside(reach_file(self.folder, self.own_stem), told, "sink.parquet.reach")

    def _remove_unrecorded(self) -> None:
        """Take back what a crash left behind before it was recorded: it comes again."""
        self._newest.clear()
        remove_together(self.folder, self.stem, self._delivered)
        remove_of_queries(self.folder, self.own_stem, self._delivered)

    def _remember(self, delivered: int) -> None:
        """Record how far the sink came, and in which layout."""
        self.memory.write({"delivered": delivered, "layout": self.layout})


@dataclass(slots=True)
class OpenFiles:
    """Hidden files that grow as rows come; a file that would be one too many is begun after the others are closed."""

    folder: Path
    drafts: list[Draft] = field(default_factory=list)
    opened: ExitStack = field(default_factory=ExitStack)
    _writers: dict[Path, pq.ParquetWriter] = field(default_factory=dict)
    _parts: dict[Path, int] = field(default_factory=dict)

    def write(self, name: Path, rows: pa.Table) -> None:
        """Add rows to the file of a name, without its ending."""
        if name not in self._writers:
            if len(self._writers) >= MOST_OPEN:
                self._writers.clear()
                self.opened.close()
            self._writers[name] = self._begin(name, rows)
        self._writers[name].write_table(rows)

    def _begin(self, name: Path, rows: pa.Table) -> pq.ParquetWriter:
        """Begin the next part of a file."""
        part = self._parts[name] = self._parts.get(name, -1) + 1
        draft = self.folder / f"{len(self.drafts):06d}.draft"
        self.drafts.append(Draft(draft, name.with_name(f"{name.name}-{part:03d}.parquet")))
        return self.opened.enter_context(pq.ParquetWriter(draft, rows.schema, **encoded(rows)))


def each_query(tables: Sequence[pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    """Part all answers of a batch by their query; one whose columns have changed may come twice."""
    for table in tables.for_each_query() if isinstance(tables, ForEachQuery) else tables:
        yield from by_query(table)


def each_query_keyed(tables: Sequence[pa.Table]) -> Iterator[tuple[str, pa.Table, pa.Table | None]]:
    """Part all answers of a batch by their query, with the keys of groups of those that may be revised."""
    if not isinstance(tables, KeyedTables):
        yield from ((query, rows, None) for query, rows in each_query(tables))
        return
    for table, keys in zip(tables, tables.keys, strict=True):
        if keys is None:
            yield from ((query, rows, None) for query, rows in by_query(table))
            continue
        names = list(table.column_names)
        whole = pa.table([*table.columns, *keys.columns], names=[*names, *keys.column_names])
        for query, rows in by_query(whole):
            yield query, rows.select(names), rows.select(keys.column_names)


def by_query(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Part answers by their query; each part keeps its order."""
    rows = without_dictionaries(table)
    names = rows[QUERY].combine_chunks().dictionary_encode()
    for place, part in _parts(rows, names.indices.to_numpy()):
        yield names.dictionary[place].as_py(), part


def by_day(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Part answers by the day, in UTC, on which their window begins, or on which their row happened."""
    name = next(name for name in TIMES if name in rows.column_names)
    times = pc.cast(rows[name].combine_chunks(), pa.timestamp("us", "UTC")).cast(pa.int64())
    days = pc.fill_null(times, 0).to_numpy() // DAY_US
    for day, part in _parts(rows, days):
        yield format_day(day), part


def _parts(rows: pa.Table, keys: Int64Array) -> Iterator[tuple[int, pa.Table]]:
    """Part rows by a number; each part keeps its order."""
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    starts = [0, *(np.flatnonzero(np.diff(sorted_keys)) + 1).tolist(), len(keys)]
    whole = rows if len(starts) == 2 else rows.take(pa.array(order))
    for start, end in itertools.pairwise(starts):
        yield int(sorted_keys[start]), whole.slice(start, end - start)
