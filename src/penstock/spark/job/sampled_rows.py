"""Gives rows the weights that queries which shed load answer by: most of them 0 where a stream is sampled.

A hash of the row's own columns decides, so a batch that comes again keeps the same rows. A level keeps rows that a
higher one keeps, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from penstock.model.sampling import TWINS, WEIGHT
from penstock.model.schema import Column
from penstock.model.twins import ENOUGH, Twins
from penstock.share.layout import Layout
from penstock.spark.kept_rows.row_numbers import hash_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENOUGH_TOLD: Final = Twins(ENOUGH, ENOUGH)


def weighted(rows: DataFrame, layout: Layout, columns: Sequence[Column], level: int, twins: Twins) -> DataFrame:
    """Add the weights of rows: one of 2^level is kept, by a hash of the columns that the source brings.

    Queries that shed load read all that there were when they came. The highest bit of the hash, which no level looks
    at, is the sign of what is told of ``twins``.
    """
    if not twins.needs_more(level):
        return rows.withColumns({WEIGHT: F.lit(1).cast("bigint"), TWINS: F.lit(1.0)})
    brought = [column for column in columns if column.expression is None and column.name in layout.plan.columns]
    hashed = hash_of(brought)
    weight, sign = F.lit(1), F.when(hashed < 0, F.lit(-twins.factor)).otherwise(F.lit(twins.factor))
    if level:
        kept = hashed.bitwiseAND(F.lit((1 << level) - 1)) == 0
        weight = F.when(kept, F.lit(1 << level)).otherwise(F.lit(0))
    return rows.withColumns({WEIGHT: weight.cast("bigint"), TWINS: sign})


def whole(rows: DataFrame, layout: Layout) -> DataFrame:
    """Let rows that were never sampled, such as those of the past, count as one each where somebody asks."""
    known = not layout.samples or WEIGHT in rows.columns
    return rows if known else weighted(rows, layout, (), 0, ENOUGH_TOLD)
