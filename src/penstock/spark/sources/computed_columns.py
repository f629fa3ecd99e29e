"""Adds a stream's computed columns; one that fails on a row is NULL there, and the row says so.

What may fail is attempted, so that one bad row stops nobody. Beside such a column stands another one that is NULL
unless computing it failed; then it holds what it was computed from. Both are attempted apart: the second attempt is
made only where the first gave NULL, so good rows pay for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.language.binding.columns_read import names_in
from penstock.language.predicates.attributes import may_fail, parts_of
from penstock.model.recent import Recent
from penstock.model.schema import Column
from penstock.spark.job.attempt import attempt, attempt_struct
from penstock.spark.job.literals import quoted
from penstock.spark.messages import message_of

MOST_KNOWN: Final = 256  # lists of columns whose doubtful ones are remembered
_known: Recent[tuple[Column, ...], tuple[Column, ...]] = Recent(MOST_KNOWN)
_PLAIN_TYPE: Final = re.compile("[a-z_]+")


def inputs_of(name: str) -> str:
    """Name the column that tells from what a computed column could not be computed; NULL where it could."""
    return f"__inputs_{name}"


def doubtful_columns(session: SparkSession, columns: Sequence[Column]) -> tuple[Column, ...]:
    """List the computed columns that may fail on a row."""
    if all(c.expression is None for c in columns):
        return ()
    key = tuple(columns)
    return _known.get_or(key, lambda: tuple(_doubtful(session, key)))


def with_inputs(names: Iterable[str], doubtful: Iterable[Column]) -> frozenset[str]:
    """Add to columns in use those that tell whether they could be computed."""
    used = frozenset(names)
    return used | {inputs_of(c.name) for c in doubtful if c.name in used}


def with_computed(frame: DataFrame, columns: Sequence[Column], beside: Sequence[SparkColumn] = ()) -> DataFrame:
    """Add computed columns, in the declared order, and behind them what tells whether they could be computed.

    ``beside`` are columns of the source that are kept, too.
    """
    if all(c.expression is None for c in columns) and not beside:
        return frame
    doubtful = doubtful_columns(frame.sparkSession, columns)
    found = [*beside]
    for column in columns:
        if column.expression is None:
            found.append(F.col(quoted(column.name)))
        else:
            value = F.expr(column.expression).cast(column.type)
            found.append((attempt(value) if column in doubtful else value).alias(column.name))
    return marked(frame.select(*found), columns)


def marked(rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Tell of rows that have all columns already which of the computed ones could not be computed, and from what."""
    doubtful = doubtful_columns(rows.sparkSession, columns)
    if not doubtful:
        return rows
    marks = []
    for column in doubtful:
        failed = attempt_struct(F.expr(column.expression or "").cast(column.type)).isNull()
        inputs = [F.col(quoted(name)) for name in sorted(names_in(column.expression or ""))]
        held = F.struct(*inputs) if inputs else F.struct(F.lit(True).alias("nothing"))
        marks.append(F.when(F.col(quoted(column.name)).isNull() & failed, held).alias(inputs_of(column.name)))
    return rows.select("*", *marks)


def not_typed(session: SparkSession, columns: Sequence[Column]) -> dict[str, str]:
    """Ask Spark which computed columns have no type, and why, by name."""
    declared = ", ".join(f"{quoted(c.name)} {c.type}" for c in columns if c.expression is None)
    empty, found = session.createDataFrame([], declared), dict[str, str]()
    for column in (c for c in columns if c.expression is not None):
        try:
            empty.select(F.expr(column.expression or "").cast(column.type)).schema  # noqa: B018
        except AnalysisException as error:
            found[column.name] = message_of(error)
    return found


def why_not_computed(rows: DataFrame, column: Column) -> str | None:
    """Say in Spark's words why a column could not be computed of one of the rows: a small job; None: it could."""
    inputs = quoted(inputs_of(column.name))
    one = rows.where(f"{inputs} IS NOT NULL").limit(1).select(f"{inputs}.*")
    value = F.expr(column.expression or "").cast(column.type).alias("x")
    try:
        one.select(value).where("x IS NOT NULL OR x IS NULL").toArrow()
    except Exception as error:
        return message_of(error)
    return None


def _doubtful(session: SparkSession, columns: Sequence[Column]) -> list[Column]:
    """Ask Spark for the types that decide which columns may fail."""
    computed = {c: c.expression for c in columns if c.expression is not None}
    texts = list(dict.fromkeys(part for text in computed.values() for part in [text, *parts_of(text)]))
    declared = ", ".join(f"{quoted(c.name)} {c.type}" for c in columns if c.expression is None)
    empty = session.createDataFrame([], declared)
    typed = empty.selectExpr(*(f"{text} AS x{i}" for i, text in enumerate(texts))).schema.fields
    types = {text: field.dataType.simpleString() for text, field in zip(texts, typed, strict=True)}
    return [c for c, text in computed.items() if may_fail(text, types) or _cast_may_fail(text, c.type.lower(), types)]


def _cast_may_fail(text: str, to: str, types: dict[str, str]) -> bool:
    """Tell whether the value of an expression may not fit the type that was declared."""
    if types[text] == to:
        return False
    return _PLAIN_TYPE.fullmatch(to) is None or may_fail(f"CAST({text} AS {to})", types)
