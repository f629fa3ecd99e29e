"""Statements in, names and versions out: what streams, tables and queries there are, durable before acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Literal

from penstock.errors import CatalogError, StateError, UnknownQuery, UnknownStream, UnknownTable, nearest
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.model.schema import Column, Stream, Table
from penstock.store.journal import Journal

Kind = Literal["stream", "table", "query"]


class Catalog:
    """Everything that has a name; each change is one version. Names do not differ by case alone."""

    def __init__(self, journal: Journal) -> None:
        """Start empty; :meth:`replay` brings back what the journal holds."""
        self.version = 0
        self._journal = journal
        self._streams: dict[str, Stream] = {}
        self._tables: dict[str, Table] = {}
        self._queries: dict[str, Definition] = {}
        self._dropped: list[tuple[Definition, int]] = []  # with the version that dropped it, for restarts
        self._names: dict[int, str] = {}  # of every definition that ever was
        self._next_id = 1
        self._lock = threading.RLock()

    # -- looking up ----------------------------------------------------------------------------------------------

    def stream(self, name: str) -> Stream | None:
        """Find a stream."""
        return self._streams.get(name.lower())

    def table(self, name: str) -> Table | None:
        """Find a table."""
        return self._tables.get(name.lower())

    def stream_names(self) -> list[str]:
        """List the streams."""
        return [s.name for s in self._streams.values()]

    def table_names(self) -> list[str]:
        """List the tables."""
        return [t.name for t in self._tables.values()]

    def tables(self) -> Mapping[str, Table]:
        """Return the tables by name."""
        return {t.name: t for t in self._tables.values()}

    def query(self, name: str) -> Definition:
        """Find a query, or say which there are."""
        found = self._queries.get(name.lower())
        if found is None:
            raise UnknownQuery(f'there is no query "{name}"', hint=nearest(name, self.query_names()))
        return found

    def query_names(self) -> list[str]:
        """List the queries in the order they were created."""
        return [d.name for d in self._queries.values()]

    def definitions(self, stream: str) -> tuple[Definition, ...]:
        """Return the queries over a stream."""
        with self._lock:
            return tuple(d for d in self._queries.values() if d.query.stream == stream)

    def snapshot(self, stream: str, version: int | None = None) -> tuple[int, tuple[Definition, ...]]:
        """Return a stream's queries as of a version, the current one if none is given."""
        with self._lock:
            if version is None:
                return self.version, self.definitions(stream)
            current = [d for d in self._queries.values() if d.created <= version]
            former = [d for d, dropped in self._dropped if d.created <= version < dropped]
            found = sorted((d for d in [*current, *former] if d.query.stream == stream), key=lambda d: d.id)
            return version, tuple(found)

    # -- changing ------------------------------------------------------------------------------------------------

    def create_stream(self, stream: Stream) -> bool:
        """Enter a stream; the same one again changes nothing."""
        with self._lock:
            known = self._streams.get(stream.name.lower())
            if known is not None and _same(known, stream):
                self._streams[stream.name.lower()] = stream
                return False
            self._require_free(stream.name, "stream")
            self._record({"op": "create stream", "stream": _plain(stream)})
            self._streams[stream.name.lower()] = stream
            return True

    def create_table(self, table: Table) -> bool:
        """Enter a table; the same one again changes nothing."""
        with self._lock:
            known = self._tables.get(table.name.lower())
            if known is not None and _same(known, table):
                return False
            self._require_free(table.name, "table")
            self._record({"op": "create table", "table": _plain(table)})
            self._tables[table.name.lower()] = table
            return True

    def create_queries(self, typed: Iterable[TypedQuery]) -> list[Definition]:
        """Enter queries, durable together; the same query under the same name again changes nothing."""
        with self._lock:
            found: list[Definition] = []
            fresh: list[Definition] = []
            for query in typed:
                name = query.query.name
                known = self._queries.get(name.lower())
                if known is not None and known.query == query.query:
                    found.append(known)
                    continue
                self._require_free(name, "query")
                definition = Definition(self._next_id, query, self.version + len(fresh) + 1)
                self._next_id += 1
                self._queries[name.lower()] = definition
                self._names[definition.id] = name
                fresh.append(definition)
                found.append(definition)
            try:
                self._record(*({"op": "create query", "name": d.name, "id": d.id, "text": d.query.text} for d in fresh))
            except StateError:
                for definition in fresh:
                    del self._queries[definition.name.lower()]
                raise
            return found

    def drop(self, kind: Kind, name: str) -> None:
        """Take a name out; a stream or table that queries read stays."""
        with self._lock:
            if kind == "query":
                definition = self.query(name)
                self._record({"op": "drop query", "name": definition.name})
                self._dropped.append((self._queries.pop(name.lower()), self.version))
                return
            known: dict[str, Any] = self._streams if kind == "stream" else self._tables
            if name.lower() not in known:
                error = UnknownStream if kind == "stream" else UnknownTable
                raise error(f'there is no {kind} "{name}"', hint=nearest(name, [x.name for x in known.values()]))
            self._require_unused(kind, known[name.lower()].name)
            self._record({"op": f"drop {kind}", "name": name})
            del known[name.lower()]

    def _require_free(self, name: str, kind: Kind) -> None:
        """Refuse a name that is taken, or that could be mistaken for an internal one."""
        key = name.lower()
        holders: dict[Kind, Mapping[str, object]] = {"stream": self._streams, "table": self._tables}
        if kind == "query":
            holders = {"query": self._queries}
        for holder, names in holders.items():
            if key in names:
                raise CatalogError(
                    f'{holder} "{name}" exists already', hint=f"Drop the {holder} first, or choose another name."
                )

    def _require_unused(self, kind: Kind, name: str) -> None:
        """Refuse to drop what a query reads."""
        for definition in self._queries.values():
            query = definition.query
            if (kind == "stream" and query.stream == name) or any(
                kind == "table" and j.table == name for j in query.joins
            ):
                raise CatalogError(f'{kind} "{name}" is read by query "{query.name}"', hint="Drop the query first.")

    def _record(self, *changes: dict[str, Any]) -> None:
        """Make changes durable, one version each."""
        numbered = [{**change, "version": self.version + i} for i, change in enumerate(changes, 1)]
        self._journal.append(*numbered)
        self.version += len(changes)

    def name_of(self, definition: int) -> str:
        """Return the name of a definition, also of one that is gone."""
        return self._names[definition]

    # -- restart -------------------------------------------------------------------------------------------------

    def history(self) -> list[dict[str, Any]]:
        """Return the changes that the journal holds."""
        return list(self._journal)

    def restore(self, change: dict[str, Any], typed: TypedQuery | None) -> None:
        """Apply one change read from the journal; ``typed`` is the query of a ``create query``."""
        self.version = change["version"]
        match change["op"]:
            case "create stream":
                stream = Stream(**_with_columns(change["stream"]))
                self._streams[stream.name.lower()] = stream
            case "create table":
                table = Table(**_with_columns(change["table"]))
                self._tables[table.name.lower()] = table
            case "create query":
                assert typed is not None
                self._queries[change["name"].lower()] = Definition(change["id"], typed, self.version)
                self._names[change["id"]] = change["name"]
                self._next_id = change["id"] + 1
            case "drop query":
                self._dropped.append((self._queries.pop(change["name"].lower()), self.version))
            case "drop stream":
                del self._streams[change["name"].lower()]
            case "drop table":
                del self._tables[change["name"].lower()]


def _plain(item: Stream | Table) -> dict[str, Any]:
    """Write a stream or table as JSON values."""
    return {**asdict(item), "options": dict(item.options)}


def _with_columns(record: dict[str, Any]) -> dict[str, Any]:
    """Read columns back."""
    return {**record, "columns": tuple(Column(**c) for c in record["columns"])}


def _same(known: Stream | Table, other: Stream | Table) -> bool:
    """Tell whether two definitions are the same."""
    return _plain(known) == _plain(other)
