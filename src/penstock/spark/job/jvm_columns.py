"""Keeps columns in the JVM, so that batches reuse them in a few calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any, Final, cast

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.classic.column import _to_seq
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.types import DataType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from penstock.model.recent import Recent

MapArrow = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

BETWEEN_TEXTS: Final = "\0"
MOST_KEPT: Final = 64  # lists of columns that stay in the JVM for the next plan


class JvmColumns:
    """Columns as the JVM has them; making and sending them again for every batch would cost more than planning."""

    def __init__(self, columns: Sequence[Column]) -> None:
        """Keep the columns; they are sent to the JVM when first used."""
        self.columns = tuple(columns)
        self._handles = [_handle(c) for c in columns]

    @cached_property
    def _all(self) -> Any:
        """Send all columns."""
        return _seq(self._handles)

    @cached_property
    def _rest(self) -> Any:
        """Send all columns but the first."""
        return _seq(self._handles[1:])

    def select(self, frame: DataFrame) -> DataFrame:
        """Select the columns from a frame."""
        return _framed(_handle_of(frame).select(self._all), frame)

    def group(self, frame: DataFrame, aggregates: JvmColumns, leading: str | None = None) -> DataFrame:
        """Group a frame by the columns, after one more written as SQL if need be, and aggregate."""
        by = self._all if leading is None else _seq([_parse()(leading), *self._handles])
        grouped = _handle_of(frame).groupBy(by)
        return _framed(grouped.agg(aggregates._handles[0], aggregates._rest), frame)


_kept: Recent[tuple[int, ...], JvmColumns] = Recent(MOST_KEPT)


def keep(columns: Sequence[Column]) -> JvmColumns:
    """Keep columns, or return the same ones as kept for a job before: most stay when a query comes or goes."""
    # Columns cannot be compared; those that are kept keep their numbers.
    return _kept.get_or(tuple(map(id, columns)), lambda: JvmColumns(columns))


def with_texts(frame: DataFrame, texts: Mapping[str, str]) -> DataFrame:
    """Add columns written as SQL, all of them in one step: every step is analysed on its own."""
    if not texts:
        return frame
    added = [_parse()(f"{text} AS {name}") for name, text in texts.items()]
    return _framed(_handle_of(frame).select(_seq([_parse()("*"), *added])), frame)


def select_texts(frame: DataFrame, texts: Sequence[str]) -> DataFrame:
    """Select expressions written as SQL, sent in one call however many they are; none may hold BETWEEN_TEXTS."""
    together = _jvm().java.util.regex.Pattern.compile(BETWEEN_TEXTS).split(BETWEEN_TEXTS.join(texts))
    return _framed(_handle_of(frame).selectExpr(together), frame)


@lru_cache(maxsize=4_096)
def written(text: str, name: str | None = None) -> Column:
    """Parse an expression in one call into the JVM; what stays the same when queries come and go is parsed once."""
    return ClassicColumn(_parse()(text if name is None else f"{text} AS {name}"))


class CollectedRows:
    """Collects the frames of one job, batch after batch: their schema is asked for once."""

    def __init__(self) -> None:
        """Begin without a frame."""
        self._schemas: dict[bool, pa.Schema] = {}

    def of(self, frame: DataFrame, *, second_form: bool = False) -> pa.Table:
        """Run a frame's job and return its rows; a job may have frames of two forms."""
        if (schema := self._schemas.get(second_form)) is None:
            found = frame.toArrow()
            self._schemas[second_form] = found.schema
            return found
        batches = cast(Any, frame)._collect_as_arrow()
        return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def observing(frame: DataFrame, name: str, texts: Sequence[str]) -> DataFrame:
    """Let aggregates of a frame's rows, written as SQL, be told by the job that reads them for something else."""
    first, *rest = [_parse()(text) for text in texts]
    return _framed(_handle_of(frame).observe(name, first, _seq(rest)), frame)


def observed(frame: DataFrame, name: str) -> list[int | None]:
    """Return what was observed in the job of a frame that has run: whole numbers."""
    row = _handle_of(frame).queryExecution().observedMetrics().apply(name)
    return [None if row.isNullAt(place) else int(row.getLong(place)) for place in range(row.length())]


def plan(frame: DataFrame) -> None:
    """Plan a frame as far as its generated code, without running it."""
    _handle_of(frame).queryExecution().toRdd()


def map_in_arrow(frame: DataFrame, function: MapArrow, schema: str) -> DataFrame:
    """Pass a frame's partitions through a function in workers, as ``mapInArrow`` does, which asks for pandas."""
    struct = DataType.fromDDL(schema)
    called: Any = UserDefinedFunction(
        lambda batches: function(batches), struct, "mapped", PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column = called(*(frame[name] for name in frame.columns))
    return _framed(_handle_of(frame).mapInArrow(_handle(column), False, None), frame)


def size_in_bytes(frame: DataFrame) -> int:
    """Return how large Spark takes a frame to be: as its files are, or very large where it does not know."""
    return int(str(_handle_of(frame).queryExecution().optimizedPlan().stats().sizeInBytes()))


@cache
def _parse() -> Any:
    """Look up the JVM's parser of expressions once."""
    return _jvm().org.apache.spark.sql.functions.expr


def _jvm() -> Any:
    """Return the JVM that runs."""
    context = SparkContext._active_spark_context
    assert context is not None, "columns are made in a running JVM"
    return context._jvm


def _handle(column: Column) -> Any:
    """Return the JVM's column."""
    return column._jc


def _handle_of(frame: DataFrame) -> Any:
    """Return the JVM's frame."""
    return frame._jdf


def _seq(handles: Sequence[Any]) -> Any:
    """Make a Scala sequence of JVM columns."""
    context = SparkContext._active_spark_context
    assert context is not None, "columns are kept in a running JVM"
    return _to_seq(context, list(handles))


def _framed(handle: Any, like: DataFrame) -> DataFrame:
    """Wrap the JVM's frame in the session of another."""
    frame: DataFrame = ClassicFrame(handle, like.sparkSession)
    return frame
