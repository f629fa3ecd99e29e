"""Defines a frame of rows that the driver holds: Spark gets them only where a plan has Spark compute something."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from penstock.model import schema
from penstock.spark.session.own_session import made_in, schema_in
from penstock.spark.sources.computed_columns import marked
from penstock.spark.sources.frames import ddl_of


class HeldRows(ClassicFrame):
    """A frame whose rows the driver holds; to send them is left until somebody asks Spark for the frame."""

    def __init__(
        self, session: SparkSession, rows: pa.Table, columns: Sequence[schema.Column], number: str | None = None
    ) -> None:
        """Take rows with all columns of a stream; if they are numbered, with a column of their numbers, as times."""
        numbers = () if number is None else (schema.Column(number, "timestamp"),)
        self._declared, self._whole = tuple(columns), (*columns, *numbers)
        self.rows = rows.select([column.name for column in self._whole])
        self._session, self._sc = session, session.sparkContext
        self.is_cached = self._support_repr_html = False

    @cached_property
    def _jdf(self) -> Any:
        """Send the rows to Spark."""
        sent = made_in(self._session, self.rows, schema_in(self._session, ddl_of(self._whole)))
        return cast(Any, marked(sent, self._declared))._jdf
