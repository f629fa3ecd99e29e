"""A batch of rows and a plan's layout in, one table of partials out: the single Spark job of a batch.

Every row gets its event time, its place before or after the watermark, its slice, and for each grouping its keys
and its signature (one bit for each condition that takes it); rows with equal ones are aggregated in Catalyst.
Columns of the result: ``label`` (slice or granule, NULL for invalid rows), ``grouping``, ``s0``… (signature),
``k0``… (keys), ``rows``, ``base`` (rows of the stream itself), ``first`` and ``last`` (times), ``late``, and
``c0_0``… (partials).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.model.query import Join
from penstock.share.layout import Layout
from penstock.spark.attempt import attempt_struct, guards_kept
from penstock.spark.attempted import AttemptingWriter
from penstock.spark.literals import longs, position_in, quoted
from penstock.spark.writer import Bounds, Writer


def compute_partials(batch: DataFrame, layout: Layout, tables: Mapping[str, DataFrame], bounds: Bounds) -> pa.Table:
    """Run the one job of a batch."""
    if not layout.attempts:
        return partials_frame(batch, layout, tables, bounds).toArrow()
    with guards_kept(batch.sparkSession):
        return partials_frame(batch, layout, tables, bounds).toArrow()


def partials_frame(batch: DataFrame, layout: Layout, tables: Mapping[str, DataFrame], bounds: Bounds) -> DataFrame:
    """Build the one job of a batch without running it."""
    marks = longs([bounds.watermark_us, max(bounds.watermark_us + 1, bounds.ahead_us)])
    rows = joined_rows(batch, layout, tables)
    rows = rows.select("*", position_in(marks, F.col("__t")).alias("__class"))
    writer = AttemptingWriter(layout) if layout.attempts else Writer(layout)
    return writer.aggregated(writer.signed(rows, bounds))


def joined_rows(batch: DataFrame, layout: Layout, tables: Mapping[str, DataFrame]) -> DataFrame:
    """Add the event time in microseconds and the columns of the plan's tables."""
    used = [F.col(quoted(c)) for c in sorted(layout.plan.columns)]
    time = F.expr(f"unix_micros(cast({quoted(layout.time)} as timestamp))")
    rows = batch.select(*used, time.alias("__t"))
    for join in layout.plan.joins:
        rows = _joined(rows, join, tables[join.id], attempted=bool(layout.attempts))
    return rows


def _joined(rows: DataFrame, join: Join, table: DataFrame, *, attempted: bool) -> DataFrame:
    """Join a table so that no row is lost: unmatched rows have no ``#`` number, repeated ones count up from 0."""
    keys = [F.expr(k) for k in join.stream_keys]
    if attempted:  # a key that fails matches nothing; the failure itself is charged by the writer
        rows = rows.select("*", *(attempt_struct(k).alias(f"__j{join.id}.{i}") for i, k in enumerate(keys)))
        keys = [F.col(quoted(f"__j{join.id}.{i}"))["v"] for i in range(len(keys))]
    on = [key == F.col(quoted(f"{join.id}.@{i}")) for i, key in enumerate(keys)]
    condition = on[0]
    for more in on[1:]:
        condition = condition & more
    return rows.join(F.broadcast(table), condition, "left")


def time_span(batch: DataFrame, time: str, ahead_us: int) -> tuple[int, int]:
    """Find the first and last valid time of a batch: a job of its own, for a stretch that cannot be foreseen."""
    micros = F.expr(f"unix_micros(cast({quoted(time)} as timestamp))")
    spans = batch.select(micros.alias("t")).where(F.col("t") < ahead_us).agg(F.min("t"), F.max("t")).toArrow()
    low, high = spans.column(0)[0].as_py(), spans.column(1)[0].as_py()
    return (0, 0) if low is None else (low, high)
