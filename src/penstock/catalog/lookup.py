"""Looks up streams, tables, queries and functions by name, as of now or of an earlier version."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.catalog.evolution import Readers, columns_of_table
from penstock.catalog.naming import KINDS, Kind, missing
from penstock.catalog.timeline import CatalogEntry, Control, Timeline
from penstock.evaluate.typed import Definition
from penstock.model.derived import MADE, PAIRS, is_line, join_of, leaders_of, numbered, source_of, text_of
from penstock.model.function import Function
from penstock.model.schema import Stream, Table
from penstock.model.stream_join import JoinNeeds, StreamJoin, needs_of


@dataclass(frozen=True, slots=True)
class Edition:
    """One version of a query that is or was in the catalog: its name, its number among those, and its stream."""

    name: str
    version: int
    stream: str


class Lookup:
    """Everything that has a name, as readers see it. Names do not differ by case alone; any thread may ask."""

    def __init__(self, find: Callable[[int], Mapping[str, Any]]) -> None:
        """Start empty; ``find`` reads a change again by its version."""
        self.version = 0
        self._streams: dict[str, Stream] = {}
        self._tables: dict[str, Table] = {}
        self._queries: dict[str, CatalogEntry] = {}
        self._functions: dict[str, Function] = {}
        self._pinned: dict[str, Function] = {}  # all Python code there ever was, by the names that calls have
        self._timeline = Timeline(find, self._pinned)
        self._leaving: dict[int, CatalogEntry] = {}  # definitions that were replaced, and still have windows to answer
        self._editions: dict[int, Edition] = {}  # every definition that ever was
        self._numbers: dict[str, list[int]] = {}  # of the definitions that a name in lower case ever had
        self._next_id = 1
        self._lock = threading.RLock()

    def stream(self, name: str) -> Stream | None:
        """Find a stream."""
        return self._streams.get(name.lower())

    def table(self, name: str) -> Table | None:
        """Find a table."""
        return self._tables.get(name.lower())

    def known_stream(self, name: str) -> Stream:
        """Find a stream, or say which there are."""
        found: Stream = self._known("stream", name)
        return found

    def known_table(self, name: str) -> Table:
        """Find a table, or say which there are."""
        found: Table = self._known("table", name)
        return found

    def feeding(self, name: str) -> Stream:
        """Find what a query reads: a stream, or the numbered rows of one."""
        source = self.known_stream(source_of(name))
        return numbered(source, name) if is_line(name) else source

    def line_names(self) -> list[str]:
        """List the numbered rows that some query reads."""
        with self._lock:
            return list(dict.fromkeys(e.stream for e in self._in_force() if is_line(e.stream)))

    def lines_of(self, name: str) -> list[str]:
        """List the numbered rows of a stream that some query reads."""
        return [line for line in self.line_names() if source_of(line) == name]

    def followers(self, name: str) -> list[str]:
        """List what is fed by a stream: its numbered rows, streams made of its queries' answers, and its joins."""
        with self._lock:
            lines = self.lines_of(name)
            return [*lines, *(s.name for s in self._streams.values() if name in leaders_of(s))]

    def leaders(self, name: str) -> list[str]:
        """List the streams that feed one, each before those that it feeds; all callers have them in one order."""
        stream = self.stream(source_of(name))
        direct = () if stream is None else (stream.name,) if is_line(name) else leaders_of(stream)
        found = {one: None for leader in direct for one in (*self.leaders(leader), leader)}
        return sorted(found, key=lambda one: (self.depth(one), one))

    def depth(self, name: str) -> int:
        """Tell how many streams lie between a stream and the farthest source of its rows."""
        stream = self.stream(name)
        return max((1 + self.depth(leader) for leader in leaders_of(stream)), default=0) if stream is not None else 0

    def joins(self) -> dict[str, StreamJoin]:
        """Return the joins of two streams, by the names of the streams of their pairs."""
        with self._lock:
            found = {s.name: join_of(s) for s in self._streams.values() if s.format == PAIRS}
        return {name: join for name, join in found.items() if join is not None}

    def join_text(self, name: str) -> str:
        """Return the SELECT of a stream that is a join of two, else nothing."""
        stream = self.stream(name)
        return text_of(stream) if stream is not None and stream.format == PAIRS else ""

    def join_needs(self, name: str) -> JoinNeeds | None:
        """Tell what joins need of a stream's rows; None: no join reads it."""
        return needs_of(name, list(self.joins().values()))

    def makes_stream(self, query: str) -> bool:
        """Tell whether a query's answers are a stream, which has its name."""
        stream = self.stream(query)
        return stream is not None and stream.format in MADE

    def function(self, name: str) -> Function:
        """Find a function, or say which there are."""
        found: Function = self._known("function", name)
        return found

    def query(self, name: str) -> Definition:
        """Find a query, or say which there are."""
        with self._lock:
            return self._timeline.read(self._known("query", name))

    def stream_names(self) -> list[str]:
        """List the streams."""
        return self._listed("stream")

    def table_names(self) -> list[str]:
        """List the tables."""
        return self._listed("table")

    def query_names(self) -> list[str]:
        """List the queries in the order they were created."""
        return self._listed("query")

    def tables(self) -> Mapping[str, Table]:
        """Return the tables by name."""
        with self._lock:
            return {t.name: t for t in self._tables.values()}

    def functions(self) -> Mapping[str, Function]:
        """Return the functions by name in lower case; Python's also by the names that calls of their code have."""
        with self._lock:
            return {**self._pinned, **self._functions}

    def function_names(self) -> list[str]:
        """List the functions."""
        return self._listed("function")

    def python_functions(self) -> tuple[Function, ...]:
        """Return all Python functions that queries may call, also those that were replaced or dropped."""
        with self._lock:
            return tuple(self._pinned.values())

    def has(self, kind: Kind, name: str) -> bool:
        """Say whether there is something of a kind and name."""
        return name.lower() in self._holder(kind)

    def name_of(self, definition: int) -> str:
        """Return the name of a definition, also of one that is gone."""
        return self._editions[definition].name

    def version_of(self, definition: int) -> int:
        """Return which version of its query a definition is: 1 for the first one of that name, 2 for the next."""
        return self._editions[definition].version

    def editions(self, name: str) -> dict[int, Edition]:
        """Return all definitions that a query's name ever had, by number, the oldest first."""
        with self._lock:
            return {number: self._editions[number] for number in self._numbers.get(name.lower(), ())}

    def edition(self, number: int) -> Definition | None:
        """Return a definition that is or was there; None: nobody can tell any more."""
        with self._lock:
            there = {entry.id: entry for entry in self._in_force()}
            entry = there.get(number) or self._timeline.gone(number, self._editions[number].stream)
            return None if entry is None else self._timeline.read(entry)

    def keeping(self, stream: str, numbers: Collection[int]) -> dict[int, int]:
        """Return how long definitions that are gone keep their answers; those that keep them for good are left out."""
        with self._lock:
            passing = [e for e in self._timeline.leftovers(stream) if e.keeps and e.id in numbers]
            return {entry.id: self._timeline.read(entry).typed.keep_us for entry in passing}

    @property
    def next_id(self) -> int:
        """Return the number that the next definition will have."""
        return self._next_id

    # -- queries over time ---------------------------------------------------------------------------------------

    def definitions(self, stream: str) -> tuple[Definition, ...]:
        """Return the queries over a stream, with those that were replaced and still have windows to answer."""
        with self._lock:
            there = sorted((e for e in self._in_force() if e.stream == stream), key=lambda entry: entry.id)
            return tuple(self._timeline.read(entry) for entry in there)

    def leaving(self, stream: str) -> list[Definition]:
        """Return the definitions over a stream that were replaced and still have windows to answer."""
        if not self._leaving:  # asked for at every batch
            return []
        with self._lock:
            return [self._timeline.read(entry) for entry in self._leaving.values() if entry.stream == stream]

    def snapshot(self, stream: str, version: int | None = None) -> tuple[int, tuple[Definition, ...]]:
        """Return a stream's queries as of a version, the current one if none is given."""
        with self._lock:
            if version is None:
                return self.version, self.definitions(stream)
            current = [entry for entry in self._in_force() if entry.stream == stream]
            return version, self._timeline.at(version, stream, current)

    def stream_version(self, stream: str) -> int:
        """Return the version of the last change that concerns a stream's queries; 0 if there was none."""
        with self._lock:
            return self._timeline.version(stream)

    def controls(self, stream: str, after: int, until: int) -> list[Control]:
        """Return what users paused and resumed in versions ``after`` < v ≤ ``until``, in order."""
        with self._lock:
            return self._timeline.controls(stream, after, until)

    def user_paused(self, name: str) -> bool:
        """Tell whether a user paused a query and has not resumed it."""
        with self._lock:
            return self._timeline.paused(self._known("query", name))

    def paused_by_users(self) -> frozenset[int]:
        """Return the definitions that users paused and have not resumed."""
        with self._lock:
            return self._timeline.all_paused()

    def outlived(self, now_us: int) -> list[Definition]:
        """Return the queries whose lifetime has passed."""
        with self._lock:
            ended = [e for e in self._queries.values() if e.until_us is not None and e.until_us <= now_us]
            return [self._timeline.read(entry) for entry in ended]

    # -- inside --------------------------------------------------------------------------------------------------

    def _in_force(self) -> list[CatalogEntry]:
        """List all definitions that answer windows, the queries of now last."""
        return [*self._leaving.values(), *self._queries.values()]

    def _readers_of_stream(self, stream: Stream) -> Readers:
        """List who reads which columns of a stream."""
        found: dict[str, frozenset[str]] = {}  # a query that was edited has two definitions for a while
        for entry in self._in_force():
            if source_of(entry.stream) == stream.name:
                reader = f'query "{entry.name}"'
                found[reader] = found.get(reader, frozenset()) | self._timeline.read(entry).typed.columns
        joined = [s for s in self._streams.values() if s.format == PAIRS and stream.name in leaders_of(s)]
        needs = {f'stream "{s.name}"': needs_of(stream.name, [j]) for s in joined if (j := join_of(s)) is not None}
        return found | {name: frozenset(need.columns) for name, need in needs.items() if need is not None}

    def _readers_of_table(self, table: Table) -> Readers:
        """List who reads which columns of a table."""
        found: dict[str, frozenset[str]] = {}
        for entry in self._in_force():
            definition = self._timeline.read(entry)
            joins = [join for join in definition.query.joins if join.table == table.name]
            if joins:
                reader = f'query "{entry.name}"'
                found[reader] = found.get(reader, frozenset()) | columns_of_table(definition, table)
        return found

    def _holder(self, kind: Kind) -> dict[str, Any]:
        """Return what holds the names of a kind."""
        holders: dict[Kind, dict[str, Any]] = {
            "stream": self._streams,
            "table": self._tables,
            "query": self._queries,
            "function": self._functions,
        }
        return holders[kind]

    def _listed(self, kind: Kind) -> list[str]:
        """List the names of a kind in the order they came."""
        with self._lock:
            return [item.name for item in self._holder(kind).values()]

    def _known(self, kind: Kind, name: str) -> Any:
        """Find what has a name, or say what there is."""
        found = self._holder(kind).get(name.lower())
        if found is None:
            other = next((one for one in KINDS if self._holder(one).get(name.lower()) is not None), None)
            raise missing(kind, name, self._listed(kind), other)
        return found
