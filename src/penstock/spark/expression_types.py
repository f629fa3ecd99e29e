"""Asks Spark for the types of expressions on empty tables, many in one analysis, and remembers what it was told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from penstock.errors import WrongType
from penstock.model.query import Query
from penstock.model.schema import Column
from penstock.spark.job.jvm_columns import BETWEEN_TEXTS, select_texts
from penstock.spark.job.literals import quoted
from penstock.spark.messages import message_of
from penstock.spark.session.own_session import made_in

# A name, or a constant; those that follow a comparison may be any of their type. A number of nine digits is an int.
_CONSTANTS: Final = re.compile(
    r"""`[^`]*` | '(?:[^'\\]|\\.|'')*'
    | (?P<operator>(?<![-=])[<>=]\s) (?: (?P<whole>-?\d{1,9}) | (?P<parted>-?\d+\.\d+) | '[^'\\]*' ) (?![\w.'])""",
    re.VERBOSE | re.DOTALL,
)
_NOT_ZERO: Final = re.compile("[1-9]")


@dataclass(frozen=True, slots=True)
class Untyped:
    """Expressions over columns whose types are to be known."""

    columns: tuple[Column, ...]
    texts: tuple[str, ...]


class ExpressionTypes:
    """The types of expressions over columns, as Spark tells them."""

    def __init__(self, session: SparkSession) -> None:
        """Ask one session."""
        self.session = session
        self._tables: dict[tuple[Column, ...], tuple[DataFrame, dict[str, T.DataType]]] = {}

    def types_of(self, untyped: Untyped, query: Query | str) -> list[T.DataType]:
        """Return the types of expressions, asking Spark for those it has not typed before; raise what it refuses."""
        frame, types = self._table(untyped.columns)
        if fresh := _unknown(untyped.texts, types):
            try:
                found = frame.selectExpr(*(f"{text} AS x{i}" for i, text in enumerate(fresh.values())))
                types.update(zip(fresh, (field.dataType for field in found.schema.fields), strict=True))
            except (PySparkException, Py4JJavaError) as error:
                raise WrongType(message_of(error), detail=f"in {query}", about=_refused(frame, fresh)) from None
        return [types[shape_of(text)] for text in untyped.texts]

    def learn(self, wanted: Iterable[Untyped]) -> None:
        """Ask Spark for what many queries want to know, in few analyses; what it refuses stays unknown."""
        by_columns: dict[tuple[Column, ...], list[Untyped]] = {}
        for one in wanted:
            by_columns.setdefault(one.columns, []).append(one)
        for columns, those in by_columns.items():
            frame, types = self._table(columns)
            if fresh := list(_fresh(those, types)):
                _learn(frame, types, fresh)

    def _table(self, columns: tuple[Column, ...]) -> tuple[DataFrame, dict[str, T.DataType]]:
        """Make an empty table with the columns given; what each column is, needs no asking."""
        if columns not in self._tables:
            ddl = ", ".join(f"{quoted(c.name)} {c.type}" for c in columns)
            frame = made_in(self.session, [], ddl)
            self._tables[columns] = frame, {quoted(f.name): f.dataType for f in frame.schema.fields}
        return self._tables[columns]


Shaped = dict[str, str]  # shape → an expression of that shape


def shape_of(text: str) -> str:
    """Write an expression with its constants after comparisons as any of their type: they do not decide its type.

    >>> shape_of("`volume` > -250 AND `side` = 'B' AND `price` < 12.50")
    "`volume` > 1 AND `side` = '' AND `price` < 11.10"
    """
    return _CONSTANTS.sub(_any_constant, text)


def _any_constant(match: re.Match[str]) -> str:
    """Put one constant for all of its type; a decimal's is told by its digits."""
    if match["operator"] is None:
        return match[0]
    if match["parted"] is not None:
        return match["operator"] + _NOT_ZERO.sub("1", match["parted"])
    return match["operator"] + ("''" if match["whole"] is None else "1")


def _refused(frame: DataFrame, fresh: Shaped) -> str | None:
    """Find the first expression that Spark refuses, of several."""
    for text in fresh.values():
        try:
            frame.selectExpr(text)
        except (PySparkException, Py4JJavaError):
            return text
    return None


def _unknown(texts: Iterable[str], types: Mapping[str, T.DataType]) -> Shaped:
    """List the expressions whose types are not known, the first one of each shape."""
    fresh: Shaped = {}
    for text in texts:
        if (shape := shape_of(text)) not in types:
            fresh.setdefault(shape, text)
    return fresh


def _fresh(those: Iterable[Untyped], types: dict[str, T.DataType]) -> Iterator[Shaped]:
    """List, query by query, what is not known and no query before asks for."""
    asked: set[str] = set()
    for one in those:
        fresh = {shape: text for shape, text in _unknown(one.texts, types).items() if shape not in asked}
        asked |= fresh.keys()
        if fresh and not any(BETWEEN_TEXTS in text for text in fresh.values()):
            yield fresh


def _learn(frame: DataFrame, types: dict[str, T.DataType], queries: Sequence[Shaped]) -> None:
    """Type the expressions of queries together; if Spark refuses, of one half and then of the other."""
    together = {shape: text for shaped in queries for shape, text in shaped.items()}
    try:
        found = select_texts(frame, [f"{text} AS x{i}" for i, text in enumerate(together.values())]).schema.fields
    except (PySparkException, Py4JJavaError):
        if len(queries) > 1:
            half = len(queries) // 2
            _learn(frame, types, queries[:half])
            _learn(frame, types, queries[half:])
        return
    types.update(zip(together, (field.dataType for field in found), strict=True))
