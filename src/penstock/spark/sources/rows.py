"""Makes a Spark frame of one batch of Arrow rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.errors import WrongType
from penstock.model.schema import Column
from penstock.spark.messages import message_of
from penstock.spark.session.own_session import made_in, schema_in
from penstock.spark.sources.computed_columns import with_computed
from penstock.spark.sources.frames import columns_of, ddl_of


def schema_of(session: SparkSession, columns: Sequence[Column]) -> pa.Schema:
    """Describe in Arrow the columns that rows must bring: all but the computed ones."""
    declared = [c for c in columns if c.expression is None]
    try:
        return to_arrow_schema(schema_in(session, ddl_of(declared)), timezone="UTC")
    except PySparkException as error:
        raise WrongType(f"rows cannot have these columns: {message_of(error)}", detail=ddl_of(declared)) from None


def columns_in(session: SparkSession, schema: pa.Schema) -> tuple[Column, ...]:
    """Describe Arrow columns as the catalog does."""
    return columns_of(made_in(session, schema.empty_table()))


def frame_of(session: SparkSession, rows: pa.Table, columns: Sequence[Column]) -> DataFrame:
    """Make one batch of rows, with the computed columns added."""
    return with_computed(made_in(session, rows.combine_chunks()), tuple(columns))
