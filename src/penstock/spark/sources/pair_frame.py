"""Makes a frame of the pairs of a join: its condition and its outputs are computed by Spark.

A pair on which the condition or an output fails has no time: it counts as invalid and is kept aside like any such row.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.kernel.join_index import TIME
from penstock.model.schema import Column, Stream
from penstock.model.stream_join import LEFT, RIGHT, StreamJoin
from penstock.spark.job.attempt import attempt_struct
from penstock.spark.job.literals import quoted
from penstock.spark.session.own_session import made_in, schema_in
from penstock.spark.sources.frames import ddl_of


def pair_frame(
    session: SparkSession, pairs: pa.Table, join: StreamJoin, sides: tuple[Stream, Stream], columns: Sequence[Column]
) -> DataFrame:
    """Choose the pairs that the condition takes, and compute the columns of the joined stream."""
    read = [
        Column(before + column.name, column.type)
        for before, stream, side in zip((LEFT, RIGHT), sides, join.sides, strict=True)
        for column in stream.columns
        if column.name in side.columns
    ]
    sent = [*read, Column(TIME, "bigint")]
    rows = pairs.select([column.name for column in sent]).combine_chunks()
    frame = made_in(session, rows, schema_in(session, ddl_of(sent)))
    when = F.timestamp_micros(F.col(TIME))
    if not join.fallible:
        taken = frame if join.where is None else frame.where(F.expr(join.where))
        outputs = [F.expr(output.expression).alias(output.name) for output in join.outputs]
        return taken.select(*outputs, when.alias(columns[-1].name))
    return _attempted(frame, join, columns)


def _attempted(frame: DataFrame, join: StreamJoin, columns: Sequence[Column]) -> DataFrame:
    """Compute what may fail on a pair, each expression apart, outputs only of pairs that the condition takes."""
    taken, failed = frame, []
    if join.where is not None:
        asked = attempt_struct(F.expr(join.where))
        taken = frame.where(asked.isNull() | asked.getField("v"))
        failed.append(asked.isNull())
    tried = [attempt_struct(F.expr(output.expression)) for output in join.outputs]
    failed += [one.isNull() for one in tried]
    fine = ~failed[0]
    for one in failed[1:]:
        fine = fine & ~one
    named = zip(tried, join.outputs, strict=True)
    outputs = [one.getField("v").alias(output.name) for one, output in named]
    return taken.select(*outputs, F.when(fine, F.timestamp_micros(F.col(quoted(TIME)))).alias(columns[-1].name))
