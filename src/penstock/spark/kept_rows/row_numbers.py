"""Numbers the buffered rows in Spark, in the order that windows of rows have.

The order is that of the rows' times, then of a hash of the row, then of its columns: the same however rows came.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.model import schema
from penstock.model.arrays import Int64Array
from penstock.model.derived import NUMBER
from penstock.spark.job.literals import longs, quoted
from penstock.spark.kept_rows.commit_folders import TIME
from penstock.spark.session.own_session import made_in
from penstock.spark.sources.computed_columns import marked

FEW_ROWS: Final = 100_000  # up to so many are sorted by one task
STRETCHES: Final = 64  # of time, each sorted by a task of its own, where there are more
_UNORDERED: Final = ("map<", "variant")


def number_rows(rows: DataFrame, columns: Sequence[schema.Column], first: int, most: int) -> DataFrame:
    """Number rows from ``first`` on; ``most`` is a bound of how many there are."""
    stretch, before = _stretches(rows) if most > FEW_ROWS else (F.expr(f"shiftright({TIME}, 62) * 0L"), [0])
    apart = rows.select("*", stretch.alias("__stretch"))
    within = F.row_number().over(Window.partitionBy("__stretch").orderBy(*order_of(columns)))
    number = within + F.element_at(F.expr(longs(before)), (F.col("__stretch") + 1).cast("int")) + F.lit(first - 1)
    return marked(apart.select(*(quoted(c.name) for c in columns), F.timestamp_micros(number).alias(NUMBER)), columns)


def count_parts(rows: DataFrame, partition: Sequence[str]) -> pa.Table:
    """List the keys that rows have: a job of its own."""
    return rows.groupBy(*(F.col(quoted(name)) for name in partition)).count().toArrow()


def number_parts(
    rows: DataFrame, columns: Sequence[schema.Column], partition: Sequence[str], keys: pa.Table, firsts: Int64Array
) -> DataFrame:
    """Number the rows of each key on their own, each from its next number on."""
    named = {f"__k{i}": keys[name] for i, name in enumerate(partition)}
    known = made_in(rows.sparkSession, pa.table({**named, "__first": pa.array(firsts)}))
    own = [F.col(quoted(name)) for name in partition]
    same = [one.eqNullSafe(F.col(f"__k{i}")) for i, one in enumerate(own)]
    within = F.row_number().over(Window.partitionBy(*own).orderBy(*order_of(columns)))
    number = F.timestamp_micros(within + F.col("__first") - 1)
    joined = rows.join(F.broadcast(known), reduce(lambda a, b: a & b, same))
    return marked(joined.select(*(quoted(c.name) for c in columns), number.alias(NUMBER)), columns)


def order_of(columns: Sequence[schema.Column]) -> list[Column]:
    """Return what rows are sorted by."""
    return [F.col(TIME), hash_of(columns), *(_comparable(column) for column in columns)]


def hash_of(columns: Sequence[schema.Column]) -> Column:
    """Hash all columns of a row."""
    return F.xxhash64(*(_comparable(column) for column in columns))


def _comparable(column: schema.Column) -> Column:
    """Return a column in a form that has an order."""
    value = F.col(quoted(column.name))
    plain = not any(word in column.type.lower() for word in _UNORDERED)
    return value if plain else F.to_json(F.struct(value))


def _stretches(rows: DataFrame) -> tuple[Column, list[int]]:
    """Cut the rows' time into stretches; also count the rows before each: a job of its own."""
    [span] = rows.agg(F.min(TIME).alias("low"), F.max(TIME).alias("high")).collect()
    low, high = (0, 0) if span["low"] is None else (span["low"], span["high"])
    width = (high - low) // STRETCHES + 1
    stretch = F.floor((F.col(TIME) - F.lit(low)) / F.lit(width)).cast("bigint")
    counted = {row["s"]: row["count"] for row in rows.groupBy(stretch.alias("s")).count().collect()}
    before = [0]
    for number in range(STRETCHES):
        before.append(before[-1] + counted.get(number, 0))
    return stretch, before
