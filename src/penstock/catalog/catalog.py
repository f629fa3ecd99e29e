"""Changes in, names and versions out: what streams, tables, queries and functions there are, durable first."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final, Literal, NoReturn

from penstock.catalog.records import plain, read_function, same, with_columns
from penstock.errors import (
    CatalogError,
    PenstockError,
    UnknownFunction,
    UnknownQuery,
    UnknownStream,
    UnknownTable,
    nearest,
)
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.language.own_names import check_own_name
from penstock.model.function import Function
from penstock.model.schema import Stream, Table
from penstock.store.journal import Journal

Kind = Literal["stream", "table", "query", "function"]
_LISTED: Final = 20
_UNKNOWN: Final[dict[Kind, type[PenstockError]]] = {
    "stream": UnknownStream,
    "table": UnknownTable,
    "query": UnknownQuery,
    "function": UnknownFunction,
}


class Catalog:
    """Everything that has a name; each change is one version. Names do not differ by case alone."""

    def __init__(self, journal: Journal) -> None:
        """Start empty; :meth:`replay` brings back what the journal holds."""
        self.version = 0
        self._journal = journal
        self._streams: dict[str, Stream] = {}
        self._tables: dict[str, Table] = {}
        self._queries: dict[str, Definition] = {}
        self._functions: dict[str, Function] = {}
        self._former: dict[str, Stream] = {}  # dropped streams, whose commits are still in the state folder
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

    def known_stream(self, name: str) -> Stream:
        """Find a stream, or say which there are."""
        return self.stream(name) or self._missing("stream", name)

    def known_table(self, name: str) -> Table:
        """Find a table, or say which there are."""
        return self.table(name) or self._missing("table", name)

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
        return found if found is not None else self._missing("query", name)

    def query_names(self) -> list[str]:
        """List the queries in the order they were created."""
        return [d.name for d in self._queries.values()]

    def function(self, name: str) -> Function:
        """Find a function, or say which there are."""
        found = self._functions.get(name.lower())
        return found if found is not None else self._missing("function", name)

    def functions(self) -> Mapping[str, Function]:
        """Return the functions by name in lower case."""
        return dict(self._functions)

    def has(self, kind: Kind, name: str) -> bool:
        """Say whether there is something of a kind and name."""
        return name.lower() in self._holder(kind)

    @property
    def next_id(self) -> int:
        """Return the number that the next definition will have."""
        return self._next_id

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
            if known is not None and same(known, stream):
                self._streams[stream.name.lower()] = stream
                return False
            self._require_free(stream.name, "stream")
            self._require_no_other_before(stream)
            self._record({"op": "create stream", "stream": plain(stream)})
            self._streams[stream.name.lower()] = stream
            return True

    def create_table(self, table: Table) -> bool:
        """Enter a table; the same one again changes nothing."""
        with self._lock:
            known = self._tables.get(table.name.lower())
            if known is not None and same(known, table):
                return False
            self._require_free(table.name, "table")
            self._record({"op": "create table", "table": plain(table)})
            self._tables[table.name.lower()] = table
            return True

    def create_queries(self, typed: Iterable[TypedQuery]) -> list[Definition]:
        """Enter queries, durable together; the same query under the same name again changes nothing."""
        with self._lock:
            fresh: list[Definition] = []
            try:
                found = [self._entered(query, fresh) for query in typed]
                self._record(*({"op": "create query", "name": d.name, "id": d.id, "text": d.query.text} for d in fresh))
            except PenstockError:
                for definition in fresh:
                    del self._queries[definition.name.lower()]
                raise
            return found

    def _entered(self, query: TypedQuery, fresh: list[Definition]) -> Definition:
        """Return the definition of a query, a new one also in ``fresh``."""
        name = query.query.name
        known = self._queries.get(name.lower())
        if known is not None and known.query == query.query:
            return known
        self._require_free(name, "query")
        definition = Definition(self._next_id, query, self.version + len(fresh) + 1)
        self._next_id += 1
        self._queries[name.lower()] = definition
        self._names[definition.id] = name
        fresh.append(definition)
        return definition

    def replace_query(self, query: TypedQuery) -> Definition:
        """Put a new definition in a query's place in one durable change; the same one changes nothing."""
        with self._lock:
            known = self.query(query.query.name)
            if known.query == query.query:
                return known
            new = Definition(self._next_id, query, self.version + 1)
            self._record({"op": "replace query", "name": new.name, "id": new.id, "text": new.query.text})
            self._put_in_place(known, new)
            return new

    def _put_in_place(self, known: Definition, new: Definition) -> None:
        """Let a definition follow another; it goes last, because definitions are in the order of their numbers."""
        self._dropped.append((self._queries.pop(known.name.lower()), self.version))
        self._queries[new.name.lower()] = new
        self._names[new.id] = new.name
        self._next_id = new.id + 1

    def create_function(self, function: Function, or_replace: bool = False) -> bool:
        """Enter a function; the same one again changes nothing."""
        with self._lock:
            if self._functions.get(function.name.lower()) == function:
                return False
            if not or_replace:
                self._require_free(function.name, "function")
            self._record({"op": "create function", "function": asdict(function)})
            self._functions[function.name.lower()] = function
            return True

    def drop(self, kind: Kind, name: str) -> None:
        """Take a name out; a stream or table that queries read stays."""
        with self._lock:
            holder = self._holder(kind)
            if name.lower() not in holder:
                self._missing(kind, name)
            own = holder[name.lower()].name
            if kind in ("stream", "table"):
                self._require_unused(kind, own)
            self._record({"op": f"drop {kind}", "name": own})
            self._take_out(kind, name)

    def _take_out(self, kind: Kind, name: str) -> None:
        """Forget a name, but for what a restart or another stream of that name has to know."""
        gone = self._holder(kind).pop(name.lower())
        if kind == "query":
            self._dropped.append((gone, self.version))
        if kind == "stream" and self._journal.path is not None:
            self._former[name.lower()] = gone

    def _holder(self, kind: Kind) -> dict[str, Any]:
        """Return what holds the names of a kind."""
        holders: dict[Kind, dict[str, Any]] = {
            "stream": self._streams,
            "table": self._tables,
            "query": self._queries,
            "function": self._functions,
        }
        return holders[kind]

    def _missing(self, kind: Kind, name: str) -> NoReturn:
        """Raise for a name that is not there."""
        known = [item.name for item in self._holder(kind).values()]
        hint = nearest(name, known)
        listed = ", ".join(known[:_LISTED]) + ", …" * (len(known) > _LISTED)
        raise _UNKNOWN[kind](
            f'there is no {kind} "{name}"', detail=None if hint else _existing(kind, listed), hint=hint
        )

    def _require_free(self, name: str, kind: Kind) -> None:
        """Refuse a name that is taken, or that could be mistaken for an internal one."""
        check_own_name(name, kind)
        key = name.lower()
        holders: tuple[Kind, ...] = ("stream", "table") if kind in ("stream", "table") else (kind,)
        for holder in holders:
            if key in self._holder(holder):
                what = f'{holder} "{name}" exists already'
                drop = (
                    f"Write CREATE OR REPLACE {holder.upper()}" if holder in ("query", "function") else "Drop it first"
                )
                raise CatalogError(what, hint=f"{drop}, or choose another name.")

    def _require_no_other_before(self, stream: Stream) -> None:
        """Refuse a stream under the name of another one whose commits are still there."""
        before = self._former.get(stream.name.lower())
        if before is not None and not same(before, stream):
            what = f'another stream called "{stream.name}" was dropped, and its commits are still in the state folder'
            raise CatalogError(what, hint="Choose another name, or start with an empty state folder.")

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
        """Apply one change read from the journal; ``typed`` is the query of one that creates or replaces it."""
        self.version = change["version"]
        match change["op"]:
            case "create stream":
                stream = Stream(**with_columns(change["stream"]))
                self._streams[stream.name.lower()] = stream
            case "create table":
                table = Table(**with_columns(change["table"]))
                self._tables[table.name.lower()] = table
            case "create query":
                assert typed is not None
                self._queries[change["name"].lower()] = Definition(change["id"], typed, self.version)
                self._names[change["id"]] = change["name"]
                self._next_id = change["id"] + 1
            case "replace query":
                assert typed is not None
                known = self._queries[change["name"].lower()]
                self._put_in_place(known, Definition(change["id"], typed, self.version))
            case "create function":
                function = read_function(change["function"])
                self._functions[function.name.lower()] = function
            case "drop query" | "drop stream" | "drop table" | "drop function" as op:
                self._take_out(op.removeprefix("drop "), change["name"])


def _existing(kind: Kind, listed: str) -> str:
    """Say what there is of a kind."""
    several = "queries" if kind == "query" else f"{kind}s"
    return f"existing {several}: {listed}" if listed else f"there are no {several}"
