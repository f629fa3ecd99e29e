"""Keeps rows in a folder of Parquet files for each commit, compacts small ones and deletes old ones.

A folder is named by its commit, ``000000000007``, or by the first and last of several, ``000000000000-000000000007``.
It is written before its commit: what a crash leaves without one is forgotten at the restart.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.errors import StateError
from penstock.spark.session.own_session import schema_in
from penstock.store.faults import reached, tear
from penstock.store.files import MEND, damaged, sync_folder

TIME: Final = "__us"  # a row's time in microseconds; streams have no column of this name
FAN_IN: Final = 8  # so many folders are put together; Spark lists more than 32 with a job of its own
LARGEST: Final = 128 << 20  # bytes; a folder of that size is left as it is
FEW_MERGED: Final = 100_000  # rows: up to so many are put together here, if they were written here

_NAME: Final = re.compile(r"(\d{12})(?:-(\d{12}))?")
_PLAIN: Final = (NumericType, StringType, BinaryType, BooleanType, DateType, TimestampType, TimestampNTZType)
_CODEC: Final = "zstd"
_OPTIONS: Final = {  # times differ from row to row: a dictionary of them would be longer than they are
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "compression": _CODEC,
    f"parquet.enable.dictionary#{TIME}": "false",
}


@dataclass(frozen=True, slots=True, order=True)
class CommitSpan:
    """The commits, first to last, whose rows a folder holds."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """Name the folder."""
        return f"{self.first:012d}" if self.first == self.last else f"{self.first:012d}-{self.last:012d}"

    @staticmethod
    def named(name: str) -> CommitSpan | None:
        """Read the name of a folder; None: it is none."""
        match = _NAME.fullmatch(name)
        return None if match is None else CommitSpan(int(match[1]), int(match[2] or match[1]))

    @property
    def level(self) -> int:
        """Tell how often such a folder was put together, by the commits it covers."""
        level, width = 0, self.last - self.first + 1
        while width >= FAN_IN:
            level, width = level + 1, width // FAN_IN
        return level

    def holds(self, other: CommitSpan) -> bool:
        """Tell whether the other's commits are among these."""
        return self != other and self.first <= other.first and other.last <= self.last


@dataclass(frozen=True, slots=True)
class _Size:
    """What the footers of a folder's files say."""

    rows: int
    greatest_us: int
    bytes: int
    columns: frozenset[str]  # that all files have


class CommitFolders:
    """The folders of one stream and purpose; frames written here have a column ``__us``."""

    def __init__(self, root: Path, point: str) -> None:
        """List what is there; a folder's footers are read when they are needed. ``point`` names writes for tests."""
        self.root, self._point = root.absolute(), point
        self._sizes: dict[CommitSpan, _Size] = {}
        self._listing = threading.Lock()  # small folders may be put together while rows are written
        self._spans = self._listed()

    @property
    def spans(self) -> tuple[CommitSpan, ...]:
        """Return what is there, oldest first."""
        return tuple(self._spans)

    def path(self, span: CommitSpan) -> Path:
        """Return where a folder is."""
        return self.root / span.name

    def rows_in(self, span: CommitSpan) -> int:
        """Return how many rows a folder holds."""
        return self._size(span).rows

    def bytes_in(self, span: CommitSpan) -> int:
        """Return how many bytes a folder's files take."""
        return self._size(span).bytes

    def bytes_held(self) -> int:
        """Return how many bytes all folders take; any thread may ask while folders come and go."""
        found = 0
        for span in self.spans:
            with suppress(OSError, pa.ArrowInvalid):  # it has gone meanwhile
                found += self.bytes_in(span)
        return found

    def write(self, rows: DataFrame | pa.Table, number: int, *, few: bool = False) -> None:
        """Write a commit's rows; the same commit again replaces them, and no rows leave no folder.

        A ``few`` are written here: Spark's own way to write files takes longer than such rows do.
        """
        span = CommitSpan(number, number)
        self._forget(span)
        if few and isinstance(rows, DataFrame) and is_plain(rows.schema):
            rows = rows.toArrow()
        self._write(rows, self.path(span))
        self._enter(span)

    def collect(self, since_us: int, column: str, most: int) -> pa.Table | None:
        """Read all rows of the folders that may hold rows since a time, here; None: there are none.

        Only files are read that were written here, which have a ``column`` that tells them, and at most so many rows;
        None stands for others, too, which Spark has to read.
        """
        found = self.since(since_us)
        if not found or not self._is_readable(found, column, most):
            return None
        return self.collected(found)

    def read(self, session: SparkSession, columns: str, since_us: int | None = None) -> DataFrame | None:
        """Read the columns (as DDL) of all folders that may hold rows since a time; None: there are none."""
        found = self._spans if since_us is None else self.since(since_us)
        return self.frame(session, columns, found) if found else None

    def since(self, since_us: int) -> list[CommitSpan]:
        """List the folders that may hold rows since a time, oldest first."""
        return [span for span in self._spans if self._size(span).greatest_us >= since_us]

    def frame(self, session: SparkSession, columns: str, spans: Sequence[CommitSpan]) -> DataFrame:
        """Read the columns (as DDL) of some folders."""
        return session.read.schema(schema_in(session, columns)).parquet(*(str(self.path(s)) for s in spans))

    def passed(self, before_us: int) -> tuple[int, list[CommitSpan]]:
        """Return the folders that hold no row of the time or later, and the greatest time in them."""
        found = [s for s in self._spans if self._size(s).greatest_us < before_us]
        return max((self._size(s).greatest_us for s in found), default=-(1 << 63)), found

    def remove(self, spans: Iterable[CommitSpan]) -> None:
        """Delete folders."""
        for span in list(spans):
            self._forget(span)
            shutil.rmtree(self.path(span), ignore_errors=True)

    def forget_after(self, number: int) -> None:
        """Delete the folders of commits that never were; call it before anything else at a restart."""
        self.remove([s for s in self._spans if s.last > number])

    def compact(
        self,
        session: SparkSession,
        columns: str,
        chosen: Callable[[DataFrame], DataFrame] = lambda rows: rows,
        written_here: str | None = None,
        most: int = FEW_MERGED,
    ) -> bool:
        """Put the newest small folders together once there are many; all of them must be of commits that are in.

        At most so many rows of files with the column ``written_here`` are put together here, without Spark.
        """
        spans = self.to_merge(self._spans, LARGEST)
        if not spans:
            return False
        here = written_here is not None and self._is_readable(spans, written_here, most)
        rows = self.collected(spans) if here else chosen(self.frame(session, columns, spans)).coalesce(1)
        self.replace(spans, rows)
        self.delete(spans)
        return True

    def collected(self, spans: Sequence[CommitSpan]) -> pa.Table:
        """Read some folders that were written here."""
        files = [path for span in spans for path in sorted(self.path(span).glob("*.parquet"))]
        tables = [_table_of(path) for path in files]
        return pa.concat_tables(tables, promote_options="default")  # jobs differ in what they say may be NULL

    def to_merge(self, spans: Sequence[CommitSpan], largest: int) -> list[CommitSpan]:
        """Choose the newest of some folders, none put together more often than the others, once there are enough.

        None is older than the newest one that is too large.
        """
        small: list[CommitSpan] = []
        for span in reversed(spans):
            if self._size(span).bytes >= largest:
                break
            small.insert(0, span)
        for level in sorted({s.level for s in small}):
            tail = _tail(small, level)
            if len(tail) >= FAN_IN:
                return tail
        return []

    def replace(self, spans: Sequence[CommitSpan], rows: DataFrame | pa.Table, group: int | None = None) -> CommitSpan:
        """Write the rows of folders that follow each other to one, which is listed in their place.

        Theirs stay until somebody calls :meth:`delete`. ``group`` is how many rows are read at once at least.
        """
        merged = CommitSpan(spans[0].first, spans[-1].last)
        draft = self.root / f".{merged.name}"
        self._write(rows, draft, group)
        draft.rename(self.path(merged))  # from here on the folders within are superfluous, also after a crash
        sync_folder(self.root)
        kept = [merged] if self._size(merged).rows else []
        with self._listing:
            self._spans = sorted([*(span for span in self._spans if span not in spans), *kept])
        return merged

    def delete(self, spans: Sequence[CommitSpan]) -> None:
        """Delete folders that are not listed any more."""
        for span in spans:
            self._sizes.pop(span, None)
            shutil.rmtree(self.path(span), ignore_errors=True)

    # -- inside --------------------------------------------------------------------------------------------------

    def _listed(self) -> list[CommitSpan]:
        """List the folders, without drafts and without those that others hold too."""
        if not self.root.is_dir():
            return []
        found = []
        for path in self.root.iterdir():
            if path.is_dir() and (span := CommitSpan.named(path.name)) is not None:
                found.append(span)
            elif path.is_dir() and path.name.startswith("."):
                shutil.rmtree(path, ignore_errors=True)
        within = [s for s in found if any(other.holds(s) for other in found)]
        for span in within:
            shutil.rmtree(self.path(span), ignore_errors=True)
        return sorted(set(found) - set(within))

    def _is_readable(self, spans: Sequence[CommitSpan], column: str, most: int) -> bool:
        """Tell whether folders hold at most so many rows, in files that were written here and have a column."""
        sizes = [self._size(span) for span in spans]
        return all(column in size.columns for size in sizes) and sum(size.rows for size in sizes) <= most

    def _write(self, rows: DataFrame | pa.Table, path: Path, group: int | None = None) -> None:
        """Write rows and make them durable."""
        reached(f"{self._point}.before")
        try:
            if isinstance(rows, pa.Table):
                _write_here(rows, path, group)
            else:
                rows.write.mode("overwrite").options(**_OPTIONS).parquet(str(path))
            make_durable(path, self._point)
        except OSError as error:
            raise StateError(f"cannot write {path}: {error.strerror}", hint=MEND) from error
        reached(f"{self._point}.after")

    def _enter(self, span: CommitSpan) -> None:
        """Remember a folder that was written, or delete it if nothing is in it."""
        if self._size(span).rows:
            with self._listing:
                self._spans = sorted({*self._spans, span})
        else:
            self.remove([span])

    def _forget(self, span: CommitSpan) -> None:
        """Leave a folder out of the list."""
        self._sizes.pop(span, None)
        with self._listing:
            self._spans = [s for s in self._spans if s != span]

    def _size(self, span: CommitSpan) -> _Size:
        """Read the footers of a folder's files, once."""
        if span not in self._sizes:
            self._sizes[span] = _size_of(self.path(span))
        return self._sizes[span]


def is_plain(schema: StructType) -> bool:
    """Tell whether all columns have types of which Spark and Arrow write the same files."""
    return all(isinstance(field.dataType, _PLAIN) for field in schema)


def _write_here(rows: pa.Table, folder: Path, group: int | None) -> None:
    """Write rows to one file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    words = [name for name in rows.column_names if name != TIME]
    deltas = {TIME: "DELTA_BINARY_PACKED"} if len(words) < rows.num_columns else None
    path = folder / "part-00000.parquet"
    pq.write_table(rows, path, compression=_CODEC, use_dictionary=words, column_encoding=deltas, row_group_size=group)


def _table_of(path: Path) -> pa.Table:
    """Read a file."""
    try:
        return pq.ParquetFile(path).read()
    except (OSError, pa.ArrowInvalid) as error:
        raise damaged(path, error) from error


def make_durable(folder: Path, point: str) -> None:
    """Make the files of a folder durable, as Spark wrote them; ``point`` names them for tests."""
    for number, path in enumerate(sorted(folder.glob("*.parquet"))):
        with path.open("r+b") as file:
            if number == 0:
                tear(point, file)
            file.flush()
            os.fsync(file.fileno())
    sync_folder(folder)
    sync_folder(folder.parent)


def _tail(spans: Sequence[CommitSpan], level: int) -> list[CommitSpan]:
    """Return the newest folders that were put together at most so often."""
    found: list[CommitSpan] = []
    for span in reversed(spans):
        if span.level > level:
            break
        found.insert(0, span)
    return found


def _size_of(folder: Path) -> _Size:
    """Add up the footers of a folder's files."""
    rows, greatest, size = 0, -(1 << 63), 0
    columns: list[frozenset[str]] = []
    for path in folder.glob("*.parquet"):
        try:
            footer = pq.read_metadata(path)
        except (OSError, pa.ArrowInvalid) as error:
            raise damaged(path, error) from error
        rows, size = rows + footer.num_rows, size + path.stat().st_size
        greatest = max(greatest, _greatest_of(footer))
        columns.append(frozenset(footer.schema.names))
    return _Size(rows, greatest, size, frozenset.intersection(*columns) if columns else frozenset())


def _greatest_of(footer: pq.FileMetaData) -> int:
    """Read the greatest time from a file's footer."""
    found = -(1 << 63)
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        if group.num_rows:
            found = max(found, int(group.column(group.num_columns - 1).statistics.max))  # the time is written last
    return found
