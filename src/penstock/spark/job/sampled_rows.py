"""Gives rows the weights that queries which shed load answer by: most of them 0 where a stream is sampled.

A hash of the row's own columns decides, so a batch that comes again keeps the same rows. A level keeps rows that a
higher one keeps, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from penstock.model.sampling import WEIGHT
from penstock.model.schema import Column
from penstock.share.layout import Layout
from penstock.spark.kept_rows.row_numbers import hash_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def weighted(rows: DataFrame, layout: Layout, columns: Sequence[Column], level: int) -> DataFrame:
    """Add the weights of rows: one of 2^level is kept, by a hash of the columns that the source brings.

    Queries that shed load read all that there were when they came.
    """
    if level == 0:
        return rows.withColumn(WEIGHT, F.lit(1).cast("bigint"))
    brought = [column for column in columns if column.expression is None and column.name in layout.plan.columns]
    kept = hash_of(brought).bitwiseAND(F.lit((1 << level) - 1)) == 0
    return rows.withColumn(WEIGHT, F.when(kept, F.lit(1 << level)).otherwise(F.lit(0)).cast("bigint"))


def whole(rows: DataFrame, layout: Layout) -> DataFrame:
    """Let rows that were never sampled, such as those of the past, count as one each where somebody asks."""
    return weighted(rows, layout, (), 0) if layout.samples and WEIGHT not in rows.columns else rows
