"""Asks Spark for the types of a bound query's expressions, or says why Spark refuses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from penstock.errors import Unsupported, WrongType
from penstock.evaluate.finishing import WINDOW_TYPES, grouping_types
from penstock.evaluate.functions.binding import bind_aggregate
from penstock.evaluate.functions.bound import is_comparable
from penstock.evaluate.typed import TypedQuery
from penstock.language.binding.columns_read import names_in
from penstock.language.predicates.attributes import attributes_of, fallible, may_fail, parts_of, texts_to_type
from penstock.language.predicates.normalize import normal
from penstock.language.predicates.split import read_predicate
from penstock.model.function import Function
from penstock.model.query import Query
from penstock.model.schema import Column, Stream, Table
from penstock.spark.job.literals import quoted
from penstock.spark.messages import message_of
from penstock.spark.session.embedded import telling_the_end
from penstock.spark.session.own_session import made_in


class Typer:
    """Asks Spark for types on empty tables; remembers what it was told."""

    def __init__(self, session: SparkSession) -> None:
        """Ask one session."""
        self.session = session
        self._tables: dict[tuple[Column, ...], tuple[DataFrame, dict[str, T.DataType]]] = {}

    @telling_the_end(attrgetter("session"))
    def type_query(
        self, query: Query, stream: Stream, tables: Mapping[str, Table], own: Mapping[str, Function] | None = None
    ) -> TypedQuery:
        """Type every expression of a query; ``own`` are the users' aggregates, by the names of their very code."""
        known = _columns(query, stream, tables)
        arguments = [a for aggregate in query.aggregates for a in aggregate.arguments]
        where = [query.where] if query.where else []
        joined = [k for join in query.joins for k in join.stream_keys]
        texts = [*query.keys, *arguments, *where, *joined]
        formula = read_predicate(query.where) if query.where else None
        tested = texts_to_type(formula) if formula else []
        computed = [part for text in dict.fromkeys([*query.keys, *arguments]) for part in parts_of(text)]
        types = self._typed(known, [*texts, *tested, *computed], query)
        named = {text: t.simpleString() for text, t in zip([*texts, *tested, *computed], types, strict=True)}
        self._check_boolean(where, types[len(query.keys) + len(arguments) :], "WHERE", query)
        key_types = tuple(_arrow(t, text, query) for t, text in zip(types, query.keys, strict=False))
        argument_types = tuple(
            _arrow(t, text, query) for t, text in zip(types[len(query.keys) :], arguments, strict=False)
        )
        each = iter(argument_types)
        aggregates = tuple(bind_aggregate(a, [next(each) for _ in a.arguments], own) for a in query.aggregates)
        outputs = self._output_types(query, types[: len(query.keys)], [a.type for a in aggregates])
        row = [column for aggregate in query.aggregates for column in aggregate.row]
        self._check_row(known, row, query)
        read = frozenset[str]().union(*map(names_in, [*texts, *row])) & {c.name for c in stream.columns}
        same = normal(query.where, lambda text: may_fail(text, named)) if query.where else None
        attributes = attributes_of(read_predicate(same), named) if same else ()
        failing = fallible([*query.keys, *arguments], named)
        return TypedQuery(query, key_types, aggregates, outputs, read, argument_types, attributes, failing, same)

    @telling_the_end(attrgetter("session"))
    def type_of(self, text: str, columns: Sequence[Column], where: str) -> str:
        """Type one expression over columns, such as the body of a function; ``where`` is shown when it has none."""
        [found] = self._typed(columns or [Column("a", "boolean")], [text], where)
        return found.simpleString()

    def _output_types(
        self, query: Query, keys: Sequence[T.DataType], aggregates: Sequence[pa.DataType]
    ) -> tuple[pa.DataType, ...]:
        """Type the SELECT list and HAVING over keys and aggregates."""
        named = {f"k{i}": t for i, t in enumerate(keys)}
        named |= {f"a{i}": from_arrow_type(t) for i, t in enumerate(aggregates)}
        if query.start_aligned:
            named |= {name: from_arrow_type(t) for name, t in WINDOW_TYPES.items()}
        named |= {name: from_arrow_type(t) for name, t in grouping_types(query).items()}
        having = [query.having] if query.having else []
        texts = [*(o.expression for o in query.outputs), *having]
        bare = {quoted(name): found for name, found in named.items()}
        if all(text in bare for text in texts):
            types = [bare[text] for text in texts]
        else:
            known = [Column(name, found.simpleString()) for name, found in named.items()]
            types = self._typed(known or [Column("a", "boolean")], texts, query)
        self._check_boolean(having, types[len(query.outputs) :], "HAVING", query)
        return tuple(_arrow(t, o.name, query) for t, o in zip(types, query.outputs, strict=False))

    def _typed(self, known: Sequence[Column], texts: Sequence[str], query: Query | str) -> list[T.DataType]:
        """Type expressions over columns, asking Spark for those it has not typed before."""
        frame, types = self._table(known)
        fresh = [text for text in dict.fromkeys(texts) if text not in types]
        if fresh:
            types.update(zip(fresh, self._ask(frame, fresh, query), strict=True))
        return [types[text] for text in texts]

    def _ask(self, frame: DataFrame, texts: Sequence[str], query: Query | str) -> list[T.DataType]:
        """Analyse expressions on an empty table."""
        try:
            fields = frame.selectExpr(*(f"{text} AS x{i}" for i, text in enumerate(texts))).schema.fields
        except (PySparkException, Py4JJavaError) as error:
            raise WrongType(message_of(error), detail=f"in {query}") from None
        return [field.dataType for field in fields]

    def _table(self, known: Sequence[Column]) -> tuple[DataFrame, dict[str, T.DataType]]:
        """Make an empty table with the columns given; what each column is, needs no asking."""
        key = tuple(known)
        if key not in self._tables:
            ddl = ", ".join(f"{quoted(c.name)} {c.type}" for c in known)
            frame = made_in(self.session, [], ddl)
            self._tables[key] = frame, {quoted(f.name): f.dataType for f in frame.schema.fields}
        return self._tables[key]

    def _check_row(self, known: Sequence[Column], row: Sequence[str], query: Query) -> None:
        """Refuse aggregates that depend on the order of rows which cannot be told apart."""
        for name, found in zip(row, self._typed(known, row, query), strict=True):
            if not is_comparable(_arrow(found, name, query)):
                what = f"first() and last() need rows that can be put in order, but {name} is {found.simpleString()}"
                raise Unsupported(what, detail=query.text, hint="Use arg_min(x, ts) or arg_max(x, ts).")

    @staticmethod
    def _check_boolean(texts: Sequence[str], types: Sequence[T.DataType], clause: str, query: Query) -> None:
        """Refuse a condition that is not a boolean."""
        for text, found in zip(texts, types, strict=False):
            if not isinstance(found, T.BooleanType | T.NullType):
                raise WrongType(f"{clause} needs a boolean, but {text} is {found.simpleString()}", detail=query.text)


def _columns(query: Query, stream: Stream, tables: Mapping[str, Table]) -> list[Column]:
    """List the columns that a query's expressions may name."""
    found = [Column(c.name, c.type) for c in stream.columns]
    for join in query.joins:
        found += [Column(f"{join.id}.{c.name}", c.type) for c in tables[join.table].columns]
    return found


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
