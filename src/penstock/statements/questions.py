"""Answers EXPLAIN, SHOW and DESCRIBE with small tables of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.errors import Unsupported
from penstock.evaluate.expressions.ddl import type_name
from penstock.evaluate.typed import Definition
from penstock.language.binding.query_text import write_name
from penstock.language.functions.sql_functions import parameters_of
from penstock.language.grammar.parse import parse_expression, parse_statement
from penstock.language.printing import write_expression, write_function, write_stream, write_table
from penstock.language.statements import Describe, Explain, Kind, Listed, Question, Select, Show, ShowCreate
from penstock.model.derived import ANSWERS, MADE, PAIRS, source_of, text_of
from penstock.model.duration import format_duration
from penstock.model.function import Function
from penstock.model.schema import Stream
from penstock.share.explain.explain import explain_plan
from penstock.share.explain.stream_joins import with_join
from penstock.share.plan import Strategy, condition_of
from penstock.statements.query_binder import QueryBinder
from penstock.stream.registry import StreamRegistry

Rows = Sequence[Sequence[str | None]]
MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class Questions:
    """Answers questions about a catalog and its streams."""

    catalog: Catalog
    strategy: Strategy
    binder: QueryBinder
    streams: StreamRegistry

    def answer(self, question: Question) -> pa.Table:
        """Answer one question."""
        match question:
            case Explain(target=target):
                return _table(["plan"], [[line] for line in self._plan(target).splitlines()])
            case Show(listed=listed):
                return _table(*self._listed(listed))
            case ShowCreate(kind=kind, name=name):
                return _table(["statement"], [[self.statement_of(kind, name)]])
            case Describe(kind=kind, name=name):
                return _table(*self._described(kind, name))
            case _:
                assert_never(question)

    # EXPLAIN.

    def _plan(self, target: str | Select | None) -> str:
        """Print the plan of everything, of one query, or with one query more."""
        if target is None:
            return "\n\n".join(self._stream_plan(name, ()) for name in self._read())
        if isinstance(target, str):
            return self._query_plan(self.catalog.query(target))
        typed = self.binder.typed(target, "this query")
        return self._stream_plan(typed.query.stream, (Definition(self.catalog.next_id, typed),))

    def _read(self) -> list[str]:
        """List what queries read: streams, and numbered rows of them."""
        return [*self.catalog.stream_names(), *self.catalog.line_names()]

    def _stream_plan(self, stream: str, added: tuple[Definition, ...]) -> str:
        """Print a stream's plan, with queries that are not there yet."""
        version, definitions = self.catalog.snapshot(stream)
        known = self.streams.woven(stream)
        observed = self.streams.observed(stream)
        [plan] = explain_plan(stream, (*definitions, *added), self.strategy, version, observed, known).streams
        return str(with_join(plan, self.catalog.join_text(stream), self.catalog.joins()))

    def _query_plan(self, one: Definition) -> str:
        """Print one query, those that share its partials, and its plan alone."""
        stream = one.query.stream
        version, definitions = self.catalog.snapshot(stream)
        partners = [d.name for d in definitions if d.id != one.id and _partials_of(d) == _partials_of(one)]
        shown = ", ".join(partners[:MOST_NAMES]) + f", … {len(partners) - MOST_NAMES} more" * (
            len(partners) > MOST_NAMES
        )
        alone = explain_plan(
            stream, (one,), self.strategy, version, self.streams.observed(stream), self.streams.woven(stream)
        )
        return f"query {one.name}: {one.query}\nshares its partials with: {shown or 'no other query'}\nalone:\n{alone}"

    # SHOW and DESCRIBE.

    def _listed(self, listed: Listed) -> tuple[list[str], Rows]:
        """List all of a kind."""
        catalog = self.catalog
        match listed:
            case "streams":
                streams = filter(None, map(catalog.stream, catalog.stream_names()))
                rows = [[s.name, s.format, s.time, _lateness(s)] for s in streams]
                return ["name", "format", "event_time", "lateness"], rows
            case "tables":
                return ["name", "format"], [[t.name, t.format] for t in catalog.tables().values()]
            case "queries":
                queries = [catalog.query(name).query for name in catalog.query_names()]
                return ["name", "stream", "window", "query"], [
                    [q.name, source_of(q.stream), str(q.window), q.text] for q in queries
                ]
            case "functions":
                functions = map(catalog.function, catalog.function_names())
                rows = [[f.name, parameters_of(f), f.returns, _readable(f)] for f in functions]
                return ["name", "parameters", "returns", "body"], rows
            case _:
                assert_never(listed)

    def statement_of(self, kind: Kind, name: str) -> str:
        """Print the statement that creates something."""
        match kind:
            case "query":
                query = self.catalog.query(name).query
                return f"CREATE QUERY {write_name(query.name)} AS {query}"
            case "function":
                function = self.catalog.function(name)
                _require_statement(function)
                return str(parse_statement(write_function(function)))
            case "stream":
                stream = self.catalog.known_stream(name)
                made = stream.format in (*MADE, PAIRS)
                return f"CREATE STREAM {write_name(stream.name)} AS {text_of(stream)}" if made else write_stream(stream)
            case "table":
                return write_table(self.catalog.known_table(name))
            case _:
                assert_never(kind)

    def _described(self, kind: Kind, name: str) -> tuple[list[str], Rows]:
        """List columns and types."""
        head = ["column", "type", "about"]
        match kind:
            case "query":
                schema = self.catalog.query(name).typed.schema
                return head, [[field.name, type_name(field.type), None] for field in schema]
            case "function":
                function = self.catalog.function(name)
                rows: list[list[str | None]] = [[p.name, p.type, "parameter"] for p in function.parameters]
                return head, [*rows, ["RETURN", function.returns, _readable(function)]]
            case "stream":
                stream = self.catalog.known_stream(name)
                return head, [[c.name, c.type, _about(c.name, c.expression, stream)] for c in stream.columns]
            case "table":
                return head, [[c.name, c.type, None] for c in self.catalog.known_table(name).columns]
            case _:
                assert_never(kind)


def _require_statement(function: Function) -> None:
    """Refuse to write the statement of a function that has none."""
    if function.python is not None:
        what = f'function "{function.name}" is Python code; no statement creates it'
        raise Unsupported(what, hint=f"DESCRIBE FUNCTION {function.name} shows its parameters.")


def _readable(function: Function) -> str:
    """Write a function's body without the backquotes that it does not need, or where its code comes from."""
    if (code := function.python) is not None:
        way = "states of slices" if code.aggregates else "arrays" if code.vectorised else "rows"
        way += ", expensive" if code.is_operator else ""
        way += f" as measured: {code.measured_us:,.0f} µs a row" if code.measured_us is not None else ""
        return f"Python {code.version}, called with {way}: {code.origin} ({function.pinned})"
    return write_expression(parse_expression(function.body))


def _partials_of(definition: Definition) -> object:
    """Return what queries have in common when they read the same partials."""
    return definition.query.keys, condition_of(definition), definition.query.is_continuous


def _about(name: str, expression: str | None, stream: Stream) -> str | None:
    """Say what is special about a stream's column."""
    computed = f"computed: {expression}" if expression else None
    late = f"event time, rows up to {format_duration(stream.lateness_us)} late" if name == stream.time else None
    if late and stream.format == ANSWERS:
        late = "event time, 1 us before window_end"
    if late and stream.format == PAIRS:
        late = "event time, the later one of both rows"
    return "; ".join(filter(None, [late, computed])) or None


def _lateness(stream: Stream) -> str | None:
    """Word how late rows may be; pairs are as late as the rows that they are made of."""
    return None if stream.format == PAIRS else format_duration(max(0, stream.lateness_us))


def _table(names: Sequence[str], rows: Rows) -> pa.Table:
    """Make a table of text."""
    columns = zip(*rows, strict=True) if rows else [[] for _ in names]
    return pa.table([pa.array(list(column), pa.string()) for column in columns], names=list(names))
