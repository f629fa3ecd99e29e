"""Keeps the catalog: creates and drops streams, tables, queries and functions, each change durable first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from penstock.catalog.evolution import check_stream, check_table, with_since
from penstock.catalog.lookup import Edition, Lookup
from penstock.catalog.naming import (
    Kind,
    existing_name,
    joined_before,
    makes_stream,
    other_before,
    still_called,
    still_joined,
    still_read,
)
from penstock.catalog.records import plain, plain_function, read_function, read_stream, read_table, same
from penstock.catalog.timeline import Action, CatalogEntry, Options, Urgency
from penstock.catalog.typed_records import as_recorded, has_typed, write_typed
from penstock.evaluate.typed import Definition, Handover, Retimed, TypedQuery, with_window
from penstock.language.grammar.parse import parse_query
from penstock.language.options import URGENCY, option_us
from penstock.language.own_names import check_own_name
from penstock.language.statements import Select
from penstock.language.stream_options import with_checked_dedup
from penstock.model.derived import EACH_ROW, MADE, PAIRS, join_of, leaders_of, same_line, since_line, source_of, text_of
from penstock.model.function import Function
from penstock.model.instants import Clock, wall_clock_us
from penstock.model.schema import Stream, Table
from penstock.store.changes import ChangeLog
from penstock.store.packed_changes import FORGOTTEN, Change

Origin = Literal["", "added"]
Since = Mapping[str, int | None]
MOST_FORGOTTEN: Final = 1_000  # definitions at a time: nobody waits for it


@dataclass(frozen=True, slots=True)
class PeriodChange:
    """A query is to run at another period; windows that begin at a time or later do, or all of them at once."""

    name: str
    period_us: int
    at_us: int | None


class Catalog(Lookup):
    """Everything that has a name; each change is one version, and may come from any thread at any time."""

    def __init__(self, changes: ChangeLog, clock: Clock = wall_clock_us) -> None:
        """Start empty; :meth:`restore` brings back what the log holds."""
        super().__init__(changes.read)
        self._changes, self._clock = changes, clock
        self._former: dict[str, Stream] = {}  # dropped streams, whose commits are still in the state folder

    def create_stream(self, stream: Stream) -> bool:
        """Enter a stream; the same one again changes nothing."""
        stream = with_checked_dedup(stream)
        with self._lock:
            known = self._streams.get(stream.name.lower())
            if known is not None and same(known, stream):
                return False
            self._require_free(stream.name, "stream")
            former = self._former.get(stream.name.lower())
            if former is not None and not same(former, stream):
                raise other_before(stream.name)
            self._carry_out(self._change("create", "stream", stream.name, stream=plain(stream)))
            return True

    def create_answers(self, stream: Stream, typed: TypedQuery) -> Definition:
        """Enter a query and the stream that its answers are, durable together; the same again changes nothing."""
        with self._lock:
            known = self.stream(stream.name)
            if known is not None and same(known, stream):
                return self.query(stream.name)
            self._require_free(stream.name, "stream")
            self._require_free(stream.name, "query")
            former = self._former.get(stream.name.lower())
            if former is not None and not same(former, stream):
                raise other_before(stream.name)
            self._require_sources(typed)
            new = self._definition(typed, 0, "", {})
            entered = {**self._change("create", "stream", stream.name, stream=plain(stream))}
            entered["version"] = self.version + 2
            self._carry_out(self._definition_change("create", new), entered, sources=[new])
            return new

    def create_joined(self, stream: Stream) -> bool:
        """Enter a join of two streams; the same one again changes nothing, whenever it began."""
        with self._lock:
            if self.holds_join(stream):
                return False
            self._require_free(stream.name, "stream")
            if stream.name.lower() in self._former:  # rows between are lost to it
                raise joined_before(stream.name)
            for leader in leaders_of(stream):
                self.known_stream(leader)
            self._carry_out(self._change("create", "stream", stream.name, stream=plain(stream)))
            return True

    def holds_join(self, stream: Stream) -> bool:
        """Tell whether there is a join of that name that means the same."""
        known = self.stream(stream.name)
        same_pairs = known is not None and known.format == PAIRS and join_of(known) == join_of(stream)
        return same_pairs and known is not None and known.columns == stream.columns

    def create_table(self, table: Table) -> bool:
        """Enter a table; the same one again changes nothing."""
        with self._lock:
            known = self._tables.get(table.name.lower())
            if known is not None and same(known, table):
                return False
            self._require_free(table.name, "table")
            self._carry_out(self._change("create", "table", table.name, table=plain(table)))
            return True

    def replace_source(self, source: Stream | Table, since_us: int | None = None) -> bool:
        """Let a stream or table go on as another definition says; one that is the same changes nothing.

        Columns that a stream gains are there from an event time on; None: from its first row on.
        """
        with self._lock:
            source = with_checked_dedup(source) if isinstance(source, Stream) else source
            known = self.check_source(source)
            if same(known, source):
                return False
            if not isinstance(known, Stream) or not isinstance(source, Stream):
                self._carry_out(self._change("alter", "table", source.name, table=plain(source)))
                return True
            followers = [
                replace(one, lateness_us=source.lateness_us)
                for one in self._streams.values()
                if one.format == EACH_ROW and known.name in leaders_of(one)
            ]
            taken = [with_since(known, source, since_us), *followers]
            changes = [self._change("alter", "stream", one.name, stream=plain(one)) for one in taken]
            for ahead, change in enumerate(changes):
                change["version"] = self.version + 1 + ahead
            self._carry_out(*changes)
            return True

    def check_source(self, source: Stream | Table) -> Stream | Table:
        """Refuse what a stream or table cannot become; return what it is."""
        with self._lock:
            if isinstance(source, Table):
                table = self.known_table(source.name)
                check_table(table, source, self._readers_of_table(table))
                return table
            stream = self.known_stream(source.name)
            check_stream(stream, with_checked_dedup(source), self._readers_of_stream(stream))
            return stream

    def create_function(self, function: Function, or_replace: bool = False) -> bool:
        """Enter a function; the same one again changes nothing."""
        with self._lock:
            if self._functions.get(function.name.lower()) == function:
                return False
            if function.name.lower() in self._pinned:  # calls of that code would mean another
                raise existing_name("function", function.name)
            if not or_replace:
                self._require_free(function.name, "function")
            self._carry_out(self._change("create", "function", function.name, function=plain_function(function)))
            return True

    def note_measured(self, function: Function, measured_us: float) -> bool:
        """Let a Python function be expensive, as measured, unless another one has its name; tell whether it is."""
        with self._lock:
            if (code := function.python) is None or self._functions.get(function.name.lower()) != function:
                return False
            known = plain_function(replace(function, python=replace(code, measured_us=measured_us)))
            self._carry_out(self._change("create", "function", function.name, function=known))
            return True

    def create_queries(
        self,
        typed: Iterable[TypedQuery],
        origin: Origin = "",
        since: Since = MappingProxyType({}),
        begins: Since = MappingProxyType({}),
    ) -> list[Definition]:
        """Enter queries, durable together; the same query under the same name again changes nothing.

        ``since`` tells, by stream, from which time on rows are numbered for queries with windows of rows; ``begins``,
        by name, before which time windows begin that an earlier query of that name has answered.
        """
        with self._lock:
            fresh: dict[str, Definition] = {}
            found = [self._entered(query, fresh, origin, since, begins) for query in typed]
            self._carry_out(*(self._definition_change("create", d) for d in fresh.values()), sources=fresh.values())
            return found

    def _entered(
        self, query: TypedQuery, fresh: dict[str, Definition], origin: Origin, since: Since, begins: Since
    ) -> Definition:
        """Return the definition of a query, a new one also in ``fresh``."""
        name, key = query.query.name, query.query.name.lower()
        known = fresh.get(key) or (self.query(name) if key in self._queries else None)
        if known is not None and _same(known, query):
            return known
        if known is not None:
            raise existing_name("query", name)
        check_own_name(name, "query")
        self._require_sources(query)
        fresh[key] = self._definition(query, len(fresh), origin, since, begins.get(name))
        return fresh[key]

    def replace_query(
        self,
        query: TypedQuery,
        since: Since = MappingProxyType({}),
        begins_us: int | None = None,
        handover_us: int | None = None,
        origin: Origin | None = None,
    ) -> Definition:
        """Put a new definition in a query's place in one durable change; one that means the same changes nothing.

        One that differs in how urgent its answers are stays the definition that it is. Otherwise the new one answers
        windows from ``begins_us`` on; the old one those that begin before ``handover_us``, then
        :meth:`retire` ends it. Without such a time it goes at once.
        """
        with self._lock:
            known = self.query(query.query.name)
            if _same(known, query):
                return known
            if _same(known, query, but=URGENCY):
                return self._urged(known, query)
            self._require_unused("query", known.name)
            self._require_sources(query)
            new = self._definition(query, 0, known.origin if origin is None else origin, since, begins_us)
            handover = {} if handover_us is None else {"handover_us": handover_us}
            self._carry_out({**self._definition_change("replace", new), **handover}, sources=[new])
            return new

    def _urged(self, known: Definition, query: TypedQuery) -> Definition:
        """Let a query be as urgent as another one of the same meaning: no answer changes, and so nothing hands over."""
        told = {"text": query.query.text, "options": [list(option) for option in query.query.options]}
        self._carry_out(self._change("urge", "query", known.name, known.id, **told))
        return self.query(known.name)

    def retime(self, changes: Iterable[PeriodChange]) -> list[Definition]:
        """Let queries go on at other periods, durable together; each hands over to a definition of that period."""
        with self._lock:
            known = [(change, self.query(change.name)) for change in changes]
            new = [self._retimed(before, change, ahead) for ahead, (change, before) in enumerate(known)]
            records = [self._period_change(one, change) for one, (change, _) in zip(new, known, strict=True)]
            self._carry_out(*records, sources=new)
            return new

    def _retimed(self, before: Definition, change: PeriodChange, ahead: int) -> Definition:
        """Number the definition that goes on with a query at another period."""
        typed = with_window(before.typed, before.asked.every(change.period_us))
        told = self.version + ahead + 1, before.created_us, before.origin, before.since_us
        begins_us = before.begins_us if change.at_us is None else change.at_us
        return Definition(self._next_id + ahead, typed, *told, begins_us, retimed=Retimed(before.asked, before.first))

    def _period_change(self, new: Definition, change: PeriodChange) -> Change:
        """Write the change of a query's period: the query as its text has it, and the period beside it."""
        body = {**self._definition_change("retime", replace(new, typed=new.as_asked()))}
        body |= {"at_us": self._clock(), "created_us": new.created_us, "period_us": new.query.window.slide}
        return {**body, "first": new.first, **({} if change.at_us is None else {"handover_us": change.at_us})}

    def holds(self, query: TypedQuery) -> bool:
        """Tell whether there is a query of that name that means the same, however it is written and however urgent."""
        with self._lock:
            return self.has("query", query.query.name) and _same(self.query(query.query.name), query, but=URGENCY)

    def retire(self, definition: Definition) -> None:
        """End a definition that was replaced and has answered its last window."""
        with self._lock:
            if definition.id in self._leaving:
                self._carry_out(self._change("retire", "query", definition.name, definition.id))

    def pause(self, name: str) -> bool:
        """Let a query answer no window from the next batch on; one that its user paused already stays as it is."""
        with self._lock:
            return not self.user_paused(name) and self._control(name, "pause")

    def resume(self, name: str) -> bool:
        """Let a query answer again, whether its user or an error paused it."""
        with self._lock:
            return self._control(name, "resume")

    def _control(self, name: str, action: Action) -> bool:
        """Record what a user wants of a query."""
        entry: CatalogEntry = self._known("query", name)
        self._carry_out(self._change(action, "query", entry.name, entry.id))
        return True

    def drop(self, kind: Kind, name: str) -> None:
        """Take a name out; a stream or table that queries read stays, and so does Python code that they call."""
        with self._lock:
            gone = self._known(kind, name)
            self._require_unused(kind, gone.name)
            changes = [self._change("drop", kind, gone.name, gone.id if isinstance(gone, CatalogEntry) else None)]
            if kind == "stream" and gone.format in MADE:  # its query goes with it
                query = self._queries[gone.name.lower()]
                changes = [self._change("drop", "query", query.name, query.id), changes[0]]
                changes[1]["version"] = self.version + 2
            self._carry_out(*changes)

    def end_outlived(self, now_us: int) -> list[Definition]:
        """Drop the queries whose lifetime has passed, and return them."""
        with self._lock:
            ended = self.outlived(now_us)
            for definition in ended:
                self.drop("query", definition.name)
            return ended

    def forget(self, stream: str, version: int, answering: Collection[int]) -> int:
        """Forget the definitions that were gone from a stream by a version and have no answers; return how many.

        Their numbers, names and versions stay known. ``answering`` are those of which some answer is kept.
        """
        with self._lock:
            left = self._timeline.leftovers(stream, version)
            chosen = [e for e in left if e.in_log and e.id not in answering][:MOST_FORGOTTEN]
            self._changes.forget([entry.version for entry in chosen])
            self._timeline.forget(stream, {entry.id for entry in chosen})
            return len(chosen)

    # -- inside --------------------------------------------------------------------------------------------------

    def _require_free(self, name: str, kind: Kind) -> None:
        """Refuse a name that is taken, or that could be mistaken for an internal one."""
        check_own_name(name, kind)
        holders: tuple[Kind, ...] = ("stream", "table") if kind in ("stream", "table") else (kind,)
        for holder in holders:
            if self.has(holder, name):
                raise existing_name(holder, name)

    def _require_sources(self, query: TypedQuery) -> None:
        """Refuse a query whose stream or table was dropped after its names were resolved."""
        self.feeding(query.query.stream)
        for join in query.query.joins:
            self.known_table(join.table)

    def _require_unused(self, kind: Kind, name: str) -> None:
        """Refuse to drop what a query reads, code that it calls, or the query that makes a stream."""
        if kind == "query" and self.makes_stream(name):
            raise makes_stream(name)
        if kind == "function" and (code := self._functions[name.lower()]).python is not None:
            for entry in self._in_force():
                if f"{code.pinned}(" in self._timeline.read(entry).query.text:
                    raise still_called(name, entry.name)
        self._require_not_joined(kind, name)
        for entry in self._in_force() if kind in ("stream", "table") else ():
            tables = [join.table for join in self._timeline.read(entry).query.joins] if kind == "table" else []
            if name in tables or (kind == "stream" and source_of(entry.stream) == name):
                raise still_read(kind, name, entry.name)

    def _require_not_joined(self, kind: Kind, name: str) -> None:
        """Refuse to drop what a join of two streams reads, or code that it calls."""
        code = self._functions[name.lower()] if kind == "function" else None
        for stream in [stream for stream in self._streams.values() if stream.format == PAIRS]:
            if kind == "stream" and name in leaders_of(stream):
                raise still_joined(name, stream.name)
            if code is not None and code.python is not None and f"{code.pinned}(" in text_of(stream):
                raise still_called(name, stream.name, "stream")

    def _definition(
        self, query: TypedQuery, ahead: int, origin: str, since: Since, begins_us: int | None = None
    ) -> Definition:
        """Number a new definition; ``ahead`` others come before it."""
        since_us = since.get(query.query.stream)
        if since_us is not None:
            line = since_line(query.query.stream, since_us)
            query = replace(query, query=replace(query.query, stream=line))
        told = self.version + ahead + 1, self._clock(), origin, since_us, begins_us
        return Definition(self._next_id + ahead, query, *told)

    def _definition_change(self, op: str, new: Definition) -> Change:
        """Write the change that enters a definition."""
        lifetime_us = option_us(new.query, "lifetime")
        until = {} if lifetime_us is None else {"until_us": new.created_us + lifetime_us}
        times = {"since_us": new.since_us, "begins_us": new.begins_us}
        since = {name: time for name, time in times.items() if time is not None}
        body = {**write_typed(new.typed), "origin": new.origin, **until, **since}
        return {**self._change(op, "query", new.name, new.id, **body), "at_us": new.created_us, "version": new.created}

    def _change(self, op: str, kind: Kind, name: str, definition: int | None = None, **body: Any) -> Change:
        """Write a change that comes next."""
        about = {"version": self.version + 1, "at_us": self._clock(), "op": op, "kind": kind, "name": name}
        return {**about, "definition": definition, **body}

    def _carry_out(self, *changes: Change, sources: Iterable[Definition] = ()) -> None:
        """Make changes durable together, then let them hold; ``sources`` are the definitions they enter."""
        self._changes.append(*changes)
        known = {source.id: source for source in sources}
        for change in changes:
            self._apply(change, known.get(change["definition"] or 0))

    # -- what a change does --------------------------------------------------------------------------------------

    def restore(self, typed: Callable[[Select, str], TypedQuery]) -> None:
        """Bring back what the log holds; ``typed`` binds and types a query that the log tells only the text of."""
        with self._lock:
            for change in self._changes:
                source = None
                if "text" in change and change["op"] != "urge" and not has_typed(change):
                    query = typed(parse_query(change["text"]), change["name"])
                    query = replace(query, where=query.query.where)  # by which its partials are filed
                    created_us = change["created_us"] if "created_us" in change else change["at_us"]
                    source = Definition(change["definition"], query, change["version"], created_us)
                    source = as_recorded(source, change)
                self._apply(change, source)

    def _apply(self, change: Change, source: Definition | None = None) -> None:
        """Let a change hold that is durable."""
        self.version, name = change["version"], change["name"]
        match change["op"], change["kind"]:
            case "create" | "alter", "stream":
                self._streams[name.lower()] = read_stream(change["stream"])
                self._timeline.changed(name, self.version)
            case "create" | "alter", "table":
                self._tables[name.lower()] = read_table(change["table"])
            case "create", "function":
                self._enter_function(read_function(change["function"]))
            case "create" | "replace" | "retime", "query":
                self._enter(change, source)
            case "urge", "query":
                options = tuple((option, value) for option, value in change["options"])
                self._queries[name.lower()].urge(Urgency(change["text"], options))
                self._timeline.changed(self._queries[name.lower()].stream, self.version)
            case "pause" | "resume" as action, "query":
                for entry in [e for e in self._in_force() if e.name.lower() == name.lower()]:
                    self._timeline.controlled(entry, action, self.version)
            case "retire", "query":
                self._timeline.dropped(self._leaving.pop(change["definition"]), self.version)
            case "drop", kind:
                self._take_out(kind, name)

    def _enter(self, change: Change, source: Definition | None) -> None:
        """Enter a definition; one that follows another goes last, because definitions are in order of their numbers."""
        stream = source.query.stream if source is not None else change["stream"]
        created_us = change.get("created_us", change["at_us"])
        told = {"created_us": created_us, "origin": change.get("origin", ""), "until_us": change.get("until_us")}
        told |= {"since_us": change.get("since_us"), "begins_us": change.get("begins_us")}
        told |= {"in_log": self._changes.path is not None and has_typed(change), "keeps": _keeps(change, source)}
        told |= {"source": source or (None if change.get(FORGOTTEN) else change)}
        entry = CatalogEntry(change["definition"], change["name"], stream, self.version, **told)
        known = self._queries.pop(entry.name.lower(), None)
        paused = known is not None and self._timeline.paused(known)
        if known is not None and "handover_us" in change:
            known.handover, known.handed_over = Handover(change["handover_us"], entry.id), self.version
            self._leaving[known.id] = known
            self._timeline.changed(known.stream, self.version)
        elif known is not None:
            self._timeline.dropped(known, self.version)
        self._queries[entry.name.lower()] = entry
        numbers = self._numbers.setdefault(entry.name.lower(), [])
        numbers.append(entry.id)
        self._editions[entry.id] = Edition(entry.name, len(numbers), stream)
        self._next_id = entry.id + 1
        self._timeline.changed(stream, self.version)
        if paused:  # the new definition of a query that its user paused is paused too
            self._timeline.controlled(entry, "pause", self.version)

    def _enter_function(self, function: Function) -> None:
        """Enter a function; Python code stays to be called by the queries that were entered with it."""
        self._functions[function.name.lower()] = function
        if function.python is not None:
            self._pinned[function.pinned] = function

    def _take_out(self, kind: Kind, name: str) -> None:
        """Forget a name, but for what a restart or another stream of that name has to know."""
        gone = self._holder(kind).pop(name.lower())
        if kind == "query":
            former = [e for e in self._leaving.values() if e.name.lower() == name.lower()]
            for entry in (*former, gone):
                self._leaving.pop(entry.id, None)
                self._timeline.dropped(entry, self.version)
        if kind == "stream" and self._changes.path is not None:
            self._former[name.lower()] = gone

    def close(self) -> None:
        """Let go of the log's file."""
        self._changes.close()


def _keeps(change: Change, source: Definition | None) -> bool:
    """Tell whether a definition keeps its answers only for a time."""
    if source is not None:
        return bool(source.typed.keep_us)
    return "keep" in dict(change.get("bound", {}).get("options", ()))


def _same(known: Definition, query: TypedQuery, but: Collection[str] = ()) -> bool:
    """Tell whether a query means what the known one does, however it is written, ``but`` for some options."""

    def others(options: Options) -> Options:
        return tuple(option for option in options if option[0] not in but)

    asked, stream = known.as_asked().query, same_line(known.query.stream)
    before = replace(asked, stream=stream, text="", where=known.typed.where, options=others(asked.options))
    return before == replace(query.query, text="", where=query.where, options=others(query.query.options))
