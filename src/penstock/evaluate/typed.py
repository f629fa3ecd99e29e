"""Defines a query whose expressions Spark has typed, and its numbered definitions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from html import escape
from typing import Final

import pyarrow as pa

from penstock.evaluate.components.extremes import FIRST_OF_SESSION, LAST_OF_SESSION
from penstock.evaluate.components.numbers import ROWS, Component
from penstock.evaluate.functions.binding import BoundAggregate
from penstock.language.options import keep_us, option_us, sheds
from penstock.language.predicates.attributes import Attribute
from penstock.model.query import Join, Query
from penstock.model.sampling import TWINS, WEIGHT
from penstock.model.window import SessionWindow, Window
from penstock.printable import block, shown

# What stands before the outputs of a query without a window: when a row happened, which commit brought it, which of the
# commit's rows it is, and whether it was late.
EACH_ROW: Final = (
    pa.field("event_time", pa.timestamp("us", tz="UTC")),
    pa.field("commit", pa.int64()),
    pa.field("ordinal", pa.int64()),
    pa.field("late", pa.bool_()),
)


@dataclass(frozen=True, slots=True)
class Condition:
    """Which rows a query takes: the joins they must go through and the predicate they must satisfy."""

    joins: tuple[Join, ...]
    where: str | None
    _hash: int = field(init=False, compare=False, repr=False)  # asked for thousands of times a batch

    def __post_init__(self) -> None:
        """Compute the hash once."""
        object.__setattr__(self, "_hash", hash((self.joins, self.where)))

    def __reduce__(self) -> tuple[type[Condition], tuple[object, ...]]:
        """Travel without the hash, which another process computes otherwise."""
        return Condition, (self.joins, self.where)

    def __hash__(self) -> int:
        """Return the hash."""
        return self._hash

    def __str__(self) -> str:
        """Print the condition as a predicate."""
        parts = [f"{j.kind} join {j.table}" for j in self.joins] + ([self.where] if self.where else [])
        return " and ".join(parts) or "every row"


_condition = lru_cache(maxsize=16_384)(Condition)  # equal ones are the same, which makes comparing them quick


@dataclass(frozen=True, slots=True)
class TypedQuery:
    """A bound query whose expressions Spark has analysed."""

    query: Query
    key_types: tuple[pa.DataType, ...]
    aggregates: tuple[BoundAggregate, ...]
    output_types: tuple[pa.DataType, ...]
    columns: frozenset[str]  # of the stream, that the query reads
    argument_types: tuple[pa.DataType, ...] = ()  # of all aggregates' arguments, one after the other
    attributes: tuple[Attribute, ...] = ()  # that the predicate tests, and its tests themselves
    fallible: frozenset[str] = frozenset()  # keys and arguments whose computing may fail
    where: str | None = None  # the predicate in the one form of all that mean the same
    order_types: tuple[pa.DataType, ...] = ()  # of what only ORDER BY names
    condition: Condition = field(init=False, compare=False)
    components: tuple[Component, ...] = field(init=False, compare=False)  # that it needs, rows first, each once
    revise_us: int = field(init=False, compare=False)  # how long late rows revise its answers; 0: not at all
    retain_us: int = field(init=False, compare=False)  # how long its partials are kept for queries to come
    rows_us: int = field(init=False, compare=False)  # how long the stream's rows are kept for queries to come
    keep_us: int = field(init=False, compare=False)  # how long its answers are kept; 0: for ever

    def __post_init__(self) -> None:
        """List the components and read the lengths among the options: they are asked for often."""
        if self.where is None:
            object.__setattr__(self, "where", self.query.where)
        object.__setattr__(self, "condition", _condition(self.query.joins, self.where))
        times = (FIRST_OF_SESSION, LAST_OF_SESSION) if isinstance(self.query.window, SessionWindow) else ()
        found = [ROWS, *times, *(c for a in self.aggregates for c in a.components)]
        object.__setattr__(self, "components", tuple(dict.fromkeys(found)))
        lengths = {"revise_us": "revise_for", "retain_us": "retain", "rows_us": "retain_rows"}
        for name, option in lengths.items():
            object.__setattr__(self, name, option_us(self.query, option) or 0)
        object.__setattr__(self, "keep_us", keep_us(self.query))

    @property
    def brought(self) -> frozenset[str]:
        """Return the columns of the stream that the query reads, without what its rows are given to be sampled."""
        return self.columns - {WEIGHT, TWINS} if sheds(self.query) else self.columns

    @property
    def schema(self) -> pa.Schema:
        """Describe the query's answers as users get them."""
        instant = pa.timestamp("us", tz="UTC")
        if self.query.is_continuous:
            return pa.schema([*EACH_ROW, *self.row_schema])
        outputs = [pa.field(o.name, t) for o, t in zip(self.query.outputs, self.output_types, strict=True)]
        return pa.schema([pa.field("window_start", instant), pa.field("window_end", instant), *outputs])

    @property
    def row_schema(self) -> pa.Schema:
        """Describe the query's own outputs."""
        named = zip(self.query.outputs, self.output_types, strict=True)
        return pa.schema([pa.field(output.name, found) for output, found in named])


def with_window(typed: TypedQuery, window: Window) -> TypedQuery:
    """Return a query with another window."""
    return replace(typed, query=replace(typed.query, window=window))


@dataclass(frozen=True, slots=True)
class Handover:
    """A later definition has taken a query's place: windows that begin at a time or after it are that one's."""

    at_us: int
    successor: int  # its number


@dataclass(frozen=True, slots=True)
class Retimed:
    """A definition goes on with a query at another period than the one before it, so that it runs with others."""

    asked: Window  # of the query's text
    first: int  # the number of the definition that CREATE or ALTER made


@dataclass(frozen=True, slots=True)
class Definition:
    """One CREATE or ALTER of a query, or one change of its period: its number is never used again."""

    id: int
    typed: TypedQuery
    created: int = 0  # catalog version from which it counts
    created_us: int = 0  # the clock then; 0: not known
    origin: str = ""  # "added": by hand to a project that runs; no file of the folder tells of it
    since_us: int | None = None  # from which time on rows are numbered for it; None: from the first one
    begins_us: int | None = None  # windows that begin before it were another definition's; None: none were
    handover: Handover | None = None  # None: it is the query as it is now
    retimed: Retimed | None = None  # None: its period is the slide of its text

    @property
    def query(self) -> Query:
        """Return the bound query."""
        return self.typed.query

    @property
    def name(self) -> str:
        """Return the query's name."""
        return self.typed.query.name

    def __str__(self) -> str:
        """Print the query on a line: its number, name and text."""
        return shown(f'query "{self.name}" (definition {self.id}): {self.query.text}')

    @property
    def asked(self) -> Window:
        """Return the window that the query's text asks for; its own may slide by less."""
        return self.typed.query.window if self.retimed is None else self.retimed.asked

    @property
    def first(self) -> int:
        """Return the number that the query had before its period was changed."""
        return self.id if self.retimed is None else self.retimed.first

    def as_asked(self) -> TypedQuery:
        """Return the query as its text has it."""
        return self.typed if self.retimed is None else with_window(self.typed, self.retimed.asked)

    def _repr_html_(self) -> str:
        """Show the query in a notebook: its text, window, answer columns and the partials kept for it."""
        query, typed = self.query, self.typed
        answers = ", ".join(f"{one.name} {one.type}" for one in typed.schema)
        rows = {
            "query": f"{self.name} (definition {self.id})",
            "stream": query.stream,
            "window": str(query.window) if query.window == self.asked else f"{query.window}, asked for {self.asked}",
            "answers": answers,
            "partials": ", ".join(str(c) for c in typed.components if c.source == c),
        }
        cells = "".join(f"<tr><th>{name}</th><td>{escape(shown(value))}</td></tr>" for name, value in rows.items())
        return f"<table>{cells}<tr><th>SQL</th><td><pre>{escape(block(query.text))}</pre></td></tr></table>"
