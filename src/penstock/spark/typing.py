"""Lets Spark type the expressions of bound queries, many in one analysis, or says why Spark refuses a query."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from sqlglot import exp

from penstock.errors import PenstockError, Unsupported, WrongType
from penstock.evaluate.expressions.ddl import type_name
from penstock.evaluate.finishing import WINDOW_TYPES, grouping_types
from penstock.evaluate.functions.binding import bind_aggregate
from penstock.evaluate.functions.bound import is_comparable
from penstock.evaluate.typed import TypedQuery
from penstock.language.binding.canonical import render
from penstock.language.binding.columns_read import names_in
from penstock.language.options import sheds
from penstock.language.predicates.attributes import (
    Attributes,
    attributes_of,
    fallible,
    node_may_fail,
    parts_of,
    texts_to_type,
)
from penstock.language.predicates.normalize import normal
from penstock.language.predicates.split import read_predicate
from penstock.model.function import Function
from penstock.model.query import Query
from penstock.model.sampling import TWINS, WEIGHT
from penstock.model.schema import Column, Stream, Table
from penstock.spark.expression_types import ExpressionTypes, Untyped
from penstock.spark.job.literals import quoted
from penstock.spark.session.embedded import telling_the_end

QUERIES_AT_ONCE: Final = 500  # that are typed together

Typing = Generator[Untyped, list[T.DataType], TypedQuery]  # asks for types, and is told them


@dataclass(frozen=True, slots=True)
class Bound:
    """A query whose names are resolved, with what it reads; ``own`` are users' aggregates by their codes' names."""

    query: Query
    stream: Stream
    tables: Mapping[str, Table]
    own: Mapping[str, Function] | None = None


class Typer:
    """Lets Spark type queries, one or many at once."""

    def __init__(self, session: SparkSession) -> None:
        """Ask one session."""
        self.session, self._types = session, ExpressionTypes(session)

    @telling_the_end(attrgetter("session"))
    def type_query(
        self, query: Query, stream: Stream, tables: Mapping[str, Table], own: Mapping[str, Function] | None = None
    ) -> TypedQuery:
        """Type every expression of a query; ``own`` are the users' aggregates, by the names of their very code."""
        [found] = self.type_queries([Bound(query, stream, tables, own)])
        if isinstance(found, PenstockError):
            raise found
        return found

    @telling_the_end(attrgetter("session"))
    def type_queries(self, bound: Sequence[Bound]) -> list[TypedQuery | PenstockError]:
        """Type many queries in few analyses; an error in a query's place says why Spark refuses that one."""
        starts = range(0, len(bound), QUERIES_AT_ONCE)
        return [found for start in starts for found in self._together(bound[start : start + QUERIES_AT_ONCE])]

    def _together(self, bound: Sequence[Bound]) -> list[TypedQuery | PenstockError]:
        """Type some queries in two or three analyses, one for each thing that they ask after the other."""
        found: dict[int, TypedQuery | PenstockError] = {}
        waiting = [_Waiting(number, one.query, _typing(one)) for number, one in enumerate(bound)]
        waiting = [one for one in waiting if one.go_on(found, self._types)]
        while waiting:
            if len(waiting) > 1:
                self._types.learn(one.asked for one in waiting if one.asked is not None)
            waiting = [one for one in waiting if one.go_on(found, self._types)]
        return [found[number] for number in range(len(bound))]

    @telling_the_end(attrgetter("session"))
    def type_of(self, text: str, columns: Sequence[Column], where: str) -> str:
        """Type one expression over columns, such as the body of a function; ``where`` is shown when it has none."""
        [found] = self.types_of([text], columns, where)
        return found

    @telling_the_end(attrgetter("session"))
    def types_of(self, texts: Sequence[str], columns: Sequence[Column], where: str) -> list[str]:
        """Type expressions over columns; ``where`` is shown when one has none."""
        untyped = Untyped(tuple(columns) or (Column("a", "boolean"),), tuple(texts))
        return [found.simpleString() for found in self._types.types_of(untyped, where)]


@dataclass(slots=True)
class _Waiting:
    """A query that is being typed, and what it asks for next."""

    number: int
    query: Query
    typing: Typing
    asked: Untyped | None = None

    def go_on(self, found: dict[int, TypedQuery | PenstockError], types: ExpressionTypes) -> bool:
        """Tell the query the types it asked for; False: it asks no more, and what came of it is found."""
        try:
            told = None if self.asked is None else types.types_of(self.asked, self.query)
            self.asked = next(self.typing) if told is None else self.typing.send(told)
            return True
        except StopIteration as done:
            found[self.number] = done.value
        except PenstockError as error:
            found[self.number] = error
        return False


def _typing(bound: Bound) -> Typing:
    """Type every expression of a query."""
    query, known = bound.query, _columns(bound.query, bound.stream, bound.tables)
    hashed = [c.name for c in bound.stream.columns if c.expression is None] if sheds(query) else []
    arguments = [a for aggregate in query.aggregates for a in aggregate.arguments]
    where = [query.where] if query.where else []
    joined = [k for join in query.joins for k in join.stream_keys]
    texts = [*query.keys, *arguments, *where, *joined]
    formula = read_predicate(query.where) if query.where else None
    tested = texts_to_type(formula) if formula else []
    computed = [part for text in dict.fromkeys([*query.keys, *arguments]) for part in parts_of(text)]
    types = yield Untyped(known, (*texts, *tested, *computed))
    named = {text: t.simpleString() for text, t in zip([*texts, *tested, *computed], types, strict=True)}
    _check_boolean(where, types[len(query.keys) + len(arguments) :], "WHERE", query)
    key_types = tuple(_arrow(t, text, query) for t, text in zip(types, query.keys, strict=False))
    argument_types = tuple(_arrow(t, text, query) for t, text in zip(types[len(query.keys) :], arguments, strict=False))
    each = iter(argument_types)
    aggregates = tuple(bind_aggregate(a, [next(each) for _ in a.arguments], bound.own) for a in query.aggregates)
    answered = yield from _answer_types(query, types[: len(query.keys)], [a.type for a in aggregates])
    outputs, ordered = answered[: len(query.outputs)], answered[len(query.outputs) :]
    row = [column for aggregate in query.aggregates for column in aggregate.row]
    _check_row(row, (yield Untyped(known, tuple(row))) if row else [], query)
    named_columns = {c.name for c in bound.stream.columns} | {WEIGHT, TWINS}
    read = frozenset(hashed).union(*map(names_in, [*texts, *row])) & named_columns
    same, attributes = _condition(query.where, named) if query.where else (None, ())
    failing = fallible([*query.keys, *arguments], named)
    return TypedQuery(query, key_types, aggregates, outputs, read, argument_types, attributes, failing, same, ordered)


def _condition(where: str, types: Mapping[str, str]) -> tuple[str, Attributes]:
    """Return the normal form of a condition, and the attributes that it tests."""
    judged: dict[str, bool] = {}

    def fails(node: exp.Expr) -> bool:
        return judged.setdefault(render(node), node_may_fail(node, types))

    same = normal(where, fails)
    return same, attributes_of(read_predicate(same), types, judged)


def _answer_types(
    query: Query, keys: Sequence[T.DataType], aggregates: Sequence[pa.DataType]
) -> Generator[Untyped, list[T.DataType], tuple[pa.DataType, ...]]:
    """Type the SELECT list, what only ORDER BY names, and HAVING, over keys and aggregates."""
    named = {f"k{i}": t for i, t in enumerate(keys)}
    named |= {f"a{i}": from_arrow_type(t) for i, t in enumerate(aggregates)}
    if query.start_aligned:
        named |= {name: from_arrow_type(t) for name, t in WINDOW_TYPES.items()}
    named |= {name: from_arrow_type(t) for name, t in grouping_types(query).items()}
    having = [query.having] if query.having else []
    texts = [*query.expressions, *having]
    bare = {quoted(name): found for name, found in named.items()}
    if all(text in bare for text in texts):
        types = [bare[text] for text in texts]
    else:
        known = tuple(Column(name, found.simpleString()) for name, found in named.items())
        types = yield Untyped(known or (Column("a", "boolean"),), tuple(texts))
    _check_boolean(having, types[len(query.expressions) :], "HAVING", query)
    names = [*(o.name for o in query.outputs), *query.expressions[len(query.outputs) :]]
    found = tuple(_arrow(t, name, query) for t, name in zip(types, names, strict=False))
    _check_comparable(query, names, found)
    return found


def _check_comparable(query: Query, names: Sequence[str], types: Sequence[pa.DataType]) -> None:
    """Refuse to order what has no order, and to look for equal ones among it."""
    ordered = {key.expression for key in query.order}
    for number, (text, found) in enumerate(zip(query.expressions, types, strict=True)):
        compared = text in ordered or (query.distinct and number < len(query.outputs))
        if compared and not is_comparable(found):
            clause = "ORDER BY" if text in ordered else "SELECT DISTINCT"
            what = f"{clause} needs values that can be put in order, but {names[number]} is {type_name(found)}"
            raise WrongType(what, detail=query.text)


def _check_row(row: Sequence[str], types: Sequence[T.DataType], query: Query) -> None:
    """Refuse aggregates that depend on the order of rows which cannot be told apart."""
    for name, found in zip(row, types, strict=True):
        if not is_comparable(_arrow(found, name, query)):
            what = f"first() and last() need rows that can be put in order, but {name} is {found.simpleString()}"
            raise Unsupported(what, detail=query.text, hint="Use arg_min(x, ts) or arg_max(x, ts).")


def _check_boolean(texts: Sequence[str], types: Sequence[T.DataType], clause: str, query: Query) -> None:
    """Refuse a condition that is not a boolean."""
    for text, found in zip(texts, types, strict=False):
        if not isinstance(found, T.BooleanType | T.NullType):
            what = f"{clause} needs a boolean, but {text} is {found.simpleString()}"
            raise WrongType(what, detail=f"in {query}", about=text)


def _columns(query: Query, stream: Stream, tables: Mapping[str, Table]) -> tuple[Column, ...]:
    """List the columns that a query's expressions may name."""
    found = _named(stream.columns, "") + ((Column(WEIGHT, "bigint"), Column(TWINS, "double")) if sheds(query) else ())
    for join in query.joins:
        found += _named(tables[join.table].columns, f"{join.id}.")
    return found


@lru_cache(maxsize=64)  # of thousands of queries, most read the same few
def _named(columns: tuple[Column, ...], before: str) -> tuple[Column, ...]:
    """Name columns and their types alone, as expressions know them."""
    return tuple(Column(before + column.name, column.type) for column in columns)


def _arrow(found: T.DataType, text: str, query: Query) -> pa.DataType:
    """Turn Spark's type into Arrow's."""
    if isinstance(found, T.NullType):
        return pa.null()
    try:
        return to_arrow_type(found, timezone="UTC")
    except Exception:
        raise Unsupported(
            f"{text} has type {found.simpleString()}, which answers cannot hold", detail=query.text
        ) from None
