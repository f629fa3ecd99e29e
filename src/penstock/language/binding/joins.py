"""Resolves FROM, JOIN and WHERE into the stream, its window, the joins by equality and the filters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from sqlglot import exp

from penstock.errors import LanguageError, UnknownColumn, UnknownStream, UnknownTable, Unsupported, nearest
from penstock.language.binding.canonical import conjuncts, render, strip
from penstock.language.binding.scope import Scope, Source, bound, resolve, source_number
from penstock.language.binding.spark_window import CALL, SESSION_CALL, is_window, take_window
from penstock.language.grammar.cursor import place_of
from penstock.language.grammar.dialect import WindowClause, window_of
from penstock.language.grammar.literals import quote
from penstock.model.derived import line_name
from penstock.model.query import Join, JoinKind
from penstock.model.schema import Stream, Table
from penstock.model.window import EachRow, RowsWindow, SessionWindow, Window

_LISTED: Final = 8  # streams that an error names


class Names(Protocol):
    """The catalog as the language sees it; names are found whatever their case."""

    def stream(self, name: str) -> Stream | None:
        """Return a stream."""

    def table(self, name: str) -> Table | None:
        """Return a table."""

    def stream_names(self) -> Iterable[str]:
        """Return the names of all streams."""

    def table_names(self) -> Iterable[str]:
        """Return the names of all tables."""


@dataclass(slots=True)
class BoundJoin:
    """A join while it is read: pairs of (expression over earlier sources, column of the table)."""

    kind: JoinKind
    node: exp.Join
    pairs: list[tuple[exp.Expr, exp.Column]]


@dataclass(slots=True)
class From:
    """What FROM, JOIN and WHERE mean: sources, window, joins and filters in order."""

    scope: Scope
    window: Window
    joins: list[BoundJoin] = field(default_factory=list)
    filters: list[exp.Expr] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)  # the join id of every source; the stream's is empty
    time: str = ""  # the stream's event time
    start_aligned: bool = False  # GROUP BY window(…), not a window in brackets
    asked: bool = False  # a window without SLIDE

    def canonical_name(self, column: exp.Column) -> str:
        """Name a column as every query of the stream names it."""
        if is_window(column):
            return "window()"  # no column is written so
        join_id = self.ids[source_number(column)]
        return quote(f"{join_id}.{column.name}" if join_id else column.name)

    @property
    def feeding(self) -> str:
        """Name the stream that is read: itself, or its rows as they are numbered."""
        name = self.scope.sources[0].name
        return line_name(name, self.window) if isinstance(self.window, RowsWindow) else name

    def canonical(self, node: exp.Expr) -> str:
        """Write an expression over the stream and the joined tables."""
        return render(node, self.canonical_name)


def read_from(select: exp.Select, names: Names, text: str, asked: bool = False) -> tuple[From, exp.Select]:
    """Resolve the stream, its tables and the conditions between them; also return the SELECT with its window marked."""
    table = select.args["from_"].this
    stream = _stream(table, names, text)
    _refuse_streams([join.this for join in select.args.get("joins") or []], names, text)
    select, by_function = take_window(select, stream, _all_columns(select, stream, names), text)
    if asked and by_function is not None:
        call = SESSION_CALL if isinstance(by_function, SessionWindow) else CALL
        what, hint = f"GROUP BY {call}(…) in a one-time query is not available", _ask_hint(table)
        raise Unsupported(what, text=text, place=place_of(table.this), hint=hint)
    window = by_function or (_asked_window if asked else _window)(window_of(table), table, stream, text)
    source = Source("stream", stream.name, table.alias_or_name, tuple(c.name for c in stream.columns))
    read = From(Scope(text, [source]), window, time=stream.time, start_aligned=by_function is not None, asked=asked)
    moved: list[exp.Expr] = []
    for join in select.args.get("joins") or []:
        moved += _join(join, read, names)
    where = select.args.get("where")
    filters = [resolve(part, read.scope, "WHERE") for part in conjuncts(where.this if where else None)]
    read.filters = moved + _take_keys(filters, read)
    _identify(read)
    return read, select


def _all_columns(select: exp.Select, stream: Stream, names: Names) -> set[str]:
    """List the columns of the stream and of the tables joined to it, in lower case."""
    tables = [names.table(join.this.name) for join in select.args.get("joins") or []]
    return {c.name.lower() for item in [stream, *tables] if item is not None for c in item.columns}


# Sources.


def _stream(table: exp.Table, names: Names, text: str) -> Stream:
    """Find the stream that FROM begins with."""
    stream = names.stream(table.name)
    if stream is not None:
        return stream
    if names.table(table.name) is not None:
        hint = "Begin FROM with the stream and join the table to it."
        raise Unsupported(
            "queries that begin with a table are not available", text=text, place=place_of(table.this), hint=hint
        )
    raise unknown_stream(table, names, text)


def unknown_stream(table: exp.Table, names: Names, text: str) -> UnknownStream:
    """Word that there is no such stream, and which one may be meant or which there are."""
    known = list(names.stream_names())
    hint, listed = nearest(table.name, known), ", ".join(known[:_LISTED]) + ", …" * (len(known) > _LISTED)
    detail = f"existing streams: {listed}" if known and hint is None else None
    what = f'there is no stream "{table.name}"'
    return UnknownStream(what, text=text, place=place_of(table.this), detail=detail, hint=hint)


def _window(clause: WindowClause | None, table: exp.Table, stream: Stream, text: str) -> Window:
    """Turn the window's clause into a window, or refuse its form; without one, each row is answered."""
    if clause is None:
        return EachRow()
    if clause.slide is None:
        what, detail = (
            "a continuous query needs SLIDE in its window",
            "without SLIDE a query is a one-time query",
        )
        hint = "Add SLIDE and how often to answer, or ask once: engine.ask(…), penstock ask."
        raise Unsupported(what, text=text, place=clause.place, detail=detail, hint=hint)
    if clause.kind == "ROWS":
        return RowsWindow(clause.length, clause.slide, partition=_partition(clause, stream, text))
    if clause.kind == "SESSION":
        return SessionWindow.of(clause.length)
    return Window(clause.length, clause.slide, clause.offset_us)


def _partition(clause: WindowClause, stream: Stream, text: str) -> tuple[str, ...]:
    """Return the columns of PARTITION BY as the stream spells them."""
    known = {column.name.lower(): column.name for column in stream.columns}
    found: dict[str, None] = {}
    for name in clause.partition:
        if name.lower() not in known:
            what, hint = f'stream "{stream.name}" has no column "{name}"', nearest(name, known.values())
            raise UnknownColumn(what, text=text, place=clause.place, hint=hint)
        found[known[name.lower()]] = None
    return tuple(found)


def _asked_window(clause: WindowClause | None, table: exp.Table, stream: Stream, text: str) -> Window:
    """Turn the window of a query that is asked once into one that may end at any microsecond."""
    if clause is None:
        what = "a one-time query needs a window"
        raise Unsupported(what, text=text, place=place_of(table.this), hint=_ask_hint(table))
    if clause.kind in ("ROWS", "SESSION"):
        what = f"{clause.kind} windows of a one-time query are not available"
        raise Unsupported(what, text=text, place=clause.place, hint=_ask_hint(table))
    if clause.slide is not None or clause.offset_us:
        word = "SLIDE" if clause.slide is not None else "OFFSET"
        what = f"a one-time query has no {word} in its window"
        hint = f"{_ask_hint(table)} CREATE QUERY answers again and again."
        raise Unsupported(what, text=text, place=clause.place, hint=hint)
    return Window(clause.length, 1)


def _ask_hint(table: exp.Table) -> str:
    """Say how the window of a query that is asked once is written."""
    return f"Write {table.name} [RANGE 10 MIN]."


def _refuse_streams(tables: Iterable[exp.Table], names: Names, text: str) -> None:
    """Refuse to join a second stream, and say how that is done."""
    for table in tables:
        if names.table(table.name) is None and names.stream(table.name) is not None:
            what = "a query cannot join two streams by itself"
            form = "CREATE STREAM pairs AS SELECT … FROM a [RANGE 5 MIN] JOIN b [RANGE 5 MIN] ON a.k = b.k"
            advice = f"Make a stream of the pairs first, and query that: {form}."
            raise Unsupported(what, text=text, place=place_of(table.this), hint=advice)


def _table(table: exp.Table, names: Names, text: str) -> Table:
    """Find a table to be joined."""
    found = names.table(table.name)
    if found is None:
        hint = nearest(table.name, names.table_names())
        raise UnknownTable(f'there is no table "{table.name}"', text=text, place=place_of(table.this), hint=hint)
    window = window_of(table)
    if window is not None:
        raise Unsupported("windows on tables are not available", text=text, place=window.place)
    return found


# Joins.


def _join(node: exp.Join, read: From, names: Names) -> list[exp.Expr]:
    """Add one join; return the conditions of an inner one that are filters."""
    scope = read.scope
    table = _table(node.this, names, scope.text)
    label = node.this.alias_or_name
    if any(source.label.lower() == label.lower() for source in scope.sources):
        what, hint = f'"{label}" is used twice', "Give one of them an alias."
        raise LanguageError(what, text=scope.text, place=place_of(node.this), hint=hint)
    kind: JoinKind = "left" if node.side == "LEFT" else "inner"
    joined = BoundJoin(kind, node, [])
    using = _using_stream_side(node, scope)
    scope.sources.append(Source("table", table.name, label, tuple(c.name for c in table.columns)))
    read.joins.append(joined)
    if using:
        joined.pairs = [_using_pair(name, left, scope) for name, left in using]
        return []
    return _on(node, joined, scope)


def _using_stream_side(node: exp.Join, scope: Scope) -> list[tuple[exp.Expr, exp.Expr]]:
    """Resolve the columns of USING among the sources before the table."""
    return [(name, scope.column([name])) for name in node.args.get("using") or []]


def _using_pair(name: exp.Expr, left: exp.Expr, scope: Scope) -> tuple[exp.Expr, exp.Column]:
    """Pair a column of USING with the table's own; from now on the bare name means the left one."""
    number = len(scope.sources) - 1
    right = Scope(scope.text, scope.sources[-1:]).column([name])
    scope.merged.add((number, name.name.lower()))
    return left, bound(number, right.name)


def _on(node: exp.Join, joined: BoundJoin, scope: Scope) -> list[exp.Expr]:
    """Split ON into key pairs and filters."""
    filters: list[exp.Expr] = []
    number = len(scope.sources) - 1
    for part in conjuncts(node.args.get("on")):
        condition = resolve(part, scope, "ON")
        pair = _pair(condition, number, guarded=bool(filters))
        if pair:
            joined.pairs.append(pair)
        else:
            filters.append(condition)
    if filters and joined.kind == "left":
        what = "conditions of a LEFT JOIN other than equality are not available"
        raise Unsupported(what, text=scope.text, place=place_of(filters[0]) or place_of(node))
    if joined.pairs or node.args.get("on") is None:
        return filters
    raise _no_equality(joined, scope)


def _no_equality(joined: BoundJoin, scope: Scope) -> Unsupported:
    """Build the error for a join that nothing equates."""
    name = joined.node.this.alias_or_name
    hint = f"Equate a column of {name} with one of the stream."
    return Unsupported(
        f'joins without an equality (of "{name}") are not available',
        text=scope.text,
        place=place_of(joined.node.this),
        hint=hint,
    )


def _pair(condition: exp.Expr, number: int, guarded: bool) -> tuple[exp.Expr, exp.Column] | None:
    """Return the two sides of an equality between a table's column and something before it.

    After another condition only bare columns count: that condition may guard the expression, and a key is computed
    before any filter.
    """
    if not isinstance(condition, exp.EQ):
        return None
    for own, other in ((condition.this, condition.expression), (condition.expression, condition.this)):
        own, other = strip(own), strip(other)
        if not isinstance(own, exp.Column) or source_number(own) != number:
            continue
        used = {source_number(column) for column in other.find_all(exp.Column)}
        simple = isinstance(other, exp.Column)
        if used and max(used) < number and (simple or not guarded):
            return other, own
    return None


def _take_keys(filters: list[exp.Expr], read: From) -> list[exp.Expr]:
    """Move equalities of WHERE into the joins written with a comma, and return the other filters."""
    open_joins = {n: j for n, j in enumerate(read.joins, 1) if not j.pairs}
    rest: list[exp.Expr] = []
    for condition in filters:
        for number in sorted(open_joins, reverse=True):
            pair = _pair(condition, number, guarded=bool(rest))
            if pair:
                open_joins[number].pairs.append(pair)
                break
        else:
            rest.append(condition)
    for joined in open_joins.values():
        if not joined.pairs or joined.kind == "left":
            raise _no_equality(joined, read.scope)
    return rest


# Canonical joins.


def _identify(read: From) -> None:
    """Order every join's keys and give it the id that the same join has in every query."""
    read.ids = [""]
    for joined in read.joins:
        keys = {(quote(own.name), read.canonical(other)): (other, own) for other, own in joined.pairs}
        joined.pairs = [keys[key] for key in sorted(keys)]
        table = read.scope.sources[len(read.ids)].name
        read.ids.append(_join_id(table, sorted(keys), read.ids))


def _join_id(table: str, keys: list[tuple[str, str]], taken: list[str]) -> str:
    """Hash a table and its keys; the same join twice in one query gets a number."""
    digest = hashlib.sha256(repr((table, [s for _, s in keys], [t for t, _ in keys])).encode()).hexdigest()
    plain = f"{table}#{digest[:6]}"
    again = sum(1 for other in taken if other == plain or other.startswith(f"{plain}-"))
    return f"{plain}-{again + 1}" if again else plain


def model_joins(read: From) -> tuple[Join, ...]:
    """Return the joins as a bound query holds them."""
    out = []
    for number, joined in enumerate(read.joins, 1):
        stream_keys = tuple(read.canonical(other) for other, _ in joined.pairs)
        table_keys = tuple(quote(own.name) for _, own in joined.pairs)
        out.append(Join(read.ids[number], read.scope.sources[number].name, joined.kind, stream_keys, table_keys))
    return tuple(out)
