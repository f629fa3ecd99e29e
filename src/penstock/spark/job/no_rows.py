"""Makes a frame without rows that Spark plans as it plans a batch of a stream."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from penstock.spark.job.literals import quoted
from penstock.spark.session.own_session import taken_over
from penstock.spark.sources.streaming_query import as_for_batches


def no_rows(session: SparkSession, types: Mapping[str, str]) -> DataFrame:
    """Make one task without rows, in a session like those of batches: columns and their types, in order.

    A batch comes as rows that are computed already, so this does too: the code generated for both is the same.
    """
    columns = [f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in types.items()]
    return taken_over(session.range(0, 1, 1, 1).where("id < 0").selectExpr(*columns), as_for_batches(session))
