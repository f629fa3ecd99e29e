"""Opens and makes the Delta table of each query, adds to it, and takes back what is behind a batch."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from penstock.errors import EnvironmentProblem, SinkError
from penstock.sinks.delta.columns import BATCH, DAY, SOURCE
from penstock.sinks.query_folders import folder_name
from penstock.store.files import sync_together

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG: Final = logging.getLogger("penstock")


def delta(module: str = "deltalake") -> Any:
    """Load deltalake, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        hint = 'Run `pip install "penstock[delta]"`.'
        what = "Delta needs deltalake, which cannot be loaded"
        raise EnvironmentProblem(what, detail=str(error), hint=hint) from None


class DeltaTables:
    """The tables below a folder that one writer adds to."""

    def __init__(self, folder: Path, source: str, *, by_day: bool) -> None:
        """Look below a folder; ``source`` names the writer's state folder and stream."""
        self.folder, self.source, self.by_day = folder, source, by_day
        self._open: dict[Path, DeltaTable] = {}
        self._known: dict[tuple[str, str], Path] = {}  # by query and columns
        self._written: dict[Path, int] = {}  # the batch up to which this writer has added to a table

    def add(self, query: str, rows: pa.Table, number: int, before: int) -> None:
        """Add answers that go up to a batch; ``before`` is the batch up to which all tables were brought."""
        path = self._place(query, rows.schema)
        table = self._opened(path)
        try:
            if table is None:
                self._make(path, query, rows.schema)
                table = self._open[path] = delta().DeltaTable(str(path))
            self._check_alone(path, table, before)
            at = int(table.version())
            done = delta().Transaction(self.source, number)
            told = delta().CommitProperties(app_transactions=[done])
            mode = "merge" if set(rows.column_names) != _columns(table).keys() else None
            delta().write_deltalake(table, rows, mode="append", schema_mode=mode, commit_properties=told)
            self._sync(path, at, int(table.version()))
        except (delta("deltalake.exceptions").DeltaError, OSError) as error:
            raise refused(path, error) from None
        self._written[path] = number

    def take_back(self, after: int) -> None:
        """Remove what this writer's predecessors wrote behind a batch, from all tables."""
        for path in sorted(self.folder.glob("*")):
            table = self._opened(path)
            if table is None or (reached := self._reached(table)) <= after:
                continue
            try:
                at, quoted = int(table.version()), self.source.replace("'", "''")
                done = delta().Transaction(self.source, after)
                told = delta().CommitProperties(app_transactions=[done])
                table.delete(f"{SOURCE} = '{quoted}' AND {BATCH} > {after}", commit_properties=told)
                self._sync(path, at, int(table.version()))
            except (delta("deltalake.exceptions").DeltaError, OSError) as error:
                raise refused(path, error) from None
            self._written[path] = reached  # a table from which somebody had deleted them has nothing to commit

    def _reached(self, table: DeltaTable) -> int:
        """Return the batch up to which a table has this writer's answers."""
        found = table.transaction_version(self.source)
        return -1 if found is None else found

    def _check_alone(self, path: Path, table: DeltaTable, before: int) -> None:
        """Make sure that nobody else, such as a process believed dead, has written these batches meanwhile."""
        if self._reached(table) > max(self._written.get(path, -1), before):
            raise SinkError(f"another engine writes the answers of {self.source} to {path}")

    def _opened(self, path: Path) -> DeltaTable | None:
        """Open a table as it is now; None: there is none."""
        if path in self._open:
            self._open[path].update_incremental()
        elif (path / "_delta_log").is_dir() and delta().DeltaTable.is_deltatable(str(path)):
            self._open[path] = delta().DeltaTable(str(path))
        return self._open.get(path)

    def _place(self, query: str, schema: pa.Schema) -> Path:
        """Find the first table of a query that takes some columns."""
        named = _types(delta().Schema.from_arrow(schema))
        known = query, str(list(named.items()))
        if known not in self._known:
            first = self.folder / folder_name(query)
            self._known[known] = next(path for path in _places(first) if self._takes(path, named))
        return self._known[known]

    def _takes(self, path: Path, named: Mapping[str, str]) -> bool:
        """Tell whether a table has no other types, or is yet to be made."""
        table = self._opened(path)
        if table is None:
            return True
        found = {name.lower(): (name, kind) for name, kind in _columns(table).items()}
        parted = DAY in table.metadata().partition_columns
        same = all(found.get(name.lower(), (name, kind)) == (name, kind) for name, kind in named.items())
        return same and parted == self.by_day

    def _make(self, path: Path, query: str, schema: pa.Schema) -> None:
        """Make a table."""
        parted = [DAY] if self.by_day else None
        told = {"name": query, "description": "answers of a Penstock query"}
        delta().DeltaTable.create(str(path), schema, mode="ignore", partition_by=parted, **told)
        if path.name != folder_name(query):
            what = f'answers of query "{query}" do not fit those before: they go to {path} from now on'
            LOG.warning(what, extra={"event": "sink folder", "query": query, "sink": str(self.folder)})

    def _sync(self, path: Path, before: int, now: int) -> None:
        """Make durable what some versions of a table added: the library leaves that to the operating system."""
        logs = [path / "_delta_log" / f"{version:020d}.json" for version in range(before + 1, now + 1)]
        logs = [log for log in logs if log.exists()]
        lines = (json.loads(line) for log in logs for line in log.read_bytes().split(b"\n") if line)
        files = [path / unquote(line["add"]["path"]) for line in lines if "add" in line]
        there = {file for file in (*files, *logs) if file.exists()}
        sync_together(there)
        sync_together({file.parent for file in there} | {path, path.parent})


def _columns(table: DeltaTable) -> dict[str, str]:
    """List the columns of a table and their types."""
    return _types(table.schema())


def _types(schema: Any) -> dict[str, str]:
    """List columns and their types as Delta writes them: Arrow may write one in several ways."""
    return {field.name: str(field.type) for field in schema.fields}


def _places(first: Path) -> Iterator[Path]:
    """Name the tables of a query, one after the other."""
    yield first
    number = 2
    while True:
        yield first.with_name(f"{first.name}~{number}")
        number += 1


def refused(path: Path, error: Exception) -> SinkError:
    """Word what Delta, or the disk below it, refused."""
    told = str(error).strip().splitlines() or [type(error).__name__]
    return SinkError(f"the Delta table {path} cannot be written: {told[0]}", detail="\n".join(told[1:]) or None)
