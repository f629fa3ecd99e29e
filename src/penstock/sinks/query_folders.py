"""Gives every query a folder of its own for its answers, all files of which can be read together.

A folder holds answers with any columns, as long as those of one name have one type. It says in a file, which readers
pass over, whose it is and which columns it has. Answers that contradict it go to another folder: ``flow~2`` beside
``flow``.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import StateError
from penstock.sinks.protocol import cannot_write
from penstock.store.faults import reached, tear
from penstock.store.files import read_record, seal, sync_together, write_record

DAY: Final = "day"  # the column of the layout query/day; with underscores behind it if the query has one of its name
LOG: Final = logging.getLogger("penstock")
_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")
_HASHED: Final = re.compile(r".*-[0-9a-f]{16}")
_DEVICES: Final = re.compile(r"con|prn|aux|nul|com\d|lpt\d")


def folder_name(name: str) -> str:
    """Name a folder that no other query has, whatever the file system makes of upper case, dots and signs.

    >>> folder_name("flow")
    'flow'
    >>> folder_name("Flow")
    'flow-f1273dc72c95d57e'
    """
    if _PLAIN.fullmatch(name) and not _HASHED.fullmatch(name) and not _DEVICES.fullmatch(name):
        return name
    shown = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40]
    return f"{shown or 'query'}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class QueryFolder:
    """A folder with answers of one query: where it is, its columns, and the column of its days if it has one."""

    path: Path
    columns: Mapping[str, str]  # types, by name
    day: str | None

    def fits(self, columns: Mapping[str, str], *, by_day: bool) -> bool:
        """Tell whether answers with some columns can be read together with those that are here."""
        known = {name.lower(): (name, kind) for name, kind in self.columns.items()}
        agree = all(known.get(name.lower(), (name, kind)) == (name, kind) for name, kind in columns.items())
        free = self.day is None or self.day not in {name.lower() for name in columns}
        return agree and free and by_day == (self.day is not None)


class QueryFolders:
    """The folders of the queries whose answers one writer takes."""

    def __init__(self, folder: Path, stem: str, *, by_day: bool) -> None:
        """Look below a folder; ``stem`` begins the names of the writer's files."""
        self.folder, self.by_day, self._record = folder, by_day, f"_columns-{stem}.json"
        self._known: dict[tuple[str, str], QueryFolder] = {}  # by query and list of columns
        self._unsaid: dict[Path, dict[str, Any]] = {}  # by folder: what is not written yet of what it says of itself

    def of(self, query: str, columns: str, schema: pa.Schema) -> QueryFolder:
        """Return where answers of a query with some columns go; the folder is made, and told by :meth:`tell`."""
        if (found := self._known.get((query, columns))) is None:
            named = {field.name: str(field.type) for field in schema}
            found = self._known[query, columns] = self._taking(query, named)
        return found

    def tell(self) -> None:
        """Let all folders that have new columns say so, durably."""
        drafts = {path: path / f".{self._record}.draft" for path in self._unsaid}
        for path, draft in drafts.items():
            reached("sink.parquet.columns.before")
            with draft.open("w+b") as file:
                file.write(seal(self._unsaid[path]))
                tear("sink.parquet.columns", file)
        sync_together(drafts.values())
        for path, draft in drafts.items():
            draft.replace(path / self._record)
        sync_together({folder for path in drafts for folder in (path, path.parent)})
        for _ in self._unsaid:
            reached("sink.parquet.columns.after")
        self._unsaid.clear()

    def _taking(self, query: str, columns: Mapping[str, str]) -> QueryFolder:
        """Find the first folder of a query that takes some columns."""
        for path in _places(self.folder / folder_name(query)):
            known = self._read(path)
            if known is None or known.fits(columns, by_day=self.by_day):
                return self._noted(query, path, known, columns)
        raise AssertionError("places do not end")

    def _noted(self, query: str, path: Path, known: QueryFolder | None, columns: Mapping[str, str]) -> QueryFolder:
        """Make a folder, and let it say which columns it has."""
        if known is not None and columns.items() <= known.columns.items() and (path / self._record).exists():
            return known
        day = (known.day if known is not None else _free(columns)) if self.by_day else None
        found = QueryFolder(path, {**(known.columns if known is not None else {}), **columns}, day)
        if known is None:
            path.mkdir(parents=True, exist_ok=True)
            self._warn(query, path)
        self._unsaid[path] = {"query": query, "columns": dict(found.columns), "day": day}
        return found

    def _warn(self, query: str, path: Path) -> None:
        """Say when answers of a query go elsewhere than before."""
        if path.name != folder_name(query):
            what = f'answers of query "{query}" do not fit those before: they go to {path} from now on'
            LOG.warning(what, extra={"event": "sink folder", "query": query, "sink": str(self.folder)})

    def _read(self, path: Path) -> QueryFolder | None:
        """Read what a folder says of itself, to whichever writer it was; None: there is none."""
        if (told := self._unsaid.get(path)) is not None:
            return QueryFolder(path, told["columns"], told["day"])
        if not path.exists():
            return None
        records = [record for file in sorted(path.glob("_columns-*.json")) if (record := read_beside(file))]
        if not records and (files := sorted(path.rglob("*.parquet"))):
            return _found(path, files)  # what it said of itself is lost
        if not records:
            return None
        columns = {name: kind for record in records for name, kind in record["columns"].items()}
        return QueryFolder(path, columns, records[0]["day"])


def _places(first: Path) -> Iterator[Path]:
    """Name the folders of a query, one after the other."""
    yield first
    number = 2
    while True:
        yield first.with_name(f"{first.name}~{number}")
        number += 1


def _free(columns: Mapping[str, str]) -> str:
    """Name the column of days, as no other is named."""
    taken, name = {column.lower() for column in columns}, DAY
    while name in taken:
        name += "_"
    return name


def _found(path: Path, files: list[Path]) -> QueryFolder:
    """Read from its files which columns a folder has."""
    schemas = [pq.read_schema(file) for file in files]
    columns = {field.name: str(field.type) for schema in schemas for field in schema}
    below = files[-1].parent.name
    return QueryFolder(path, columns, below.partition("=")[0] if files[-1].parent != path else None)


def write_beside(path: Path, record: dict[str, Any], point: str) -> None:
    """Write a record into a sink's folder; that this fails is the sink's matter."""
    try:
        write_record(path, record, point)
    except StateError as error:
        if isinstance(error.__cause__, OSError):
            raise cannot_write(path.parent, error.__cause__) from error
        raise


def read_beside(path: Path) -> dict[str, Any] | None:
    """Read a record of a sink's folder; None: it is not there, or not as it was written."""
    try:
        return read_record(path)
    except StateError:
        return None
