"""Enters sources into the catalog and opens them: those of files and services, and DataFrames of the program itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.model.schema import Stream, Table
from penstock.spark.job.lookup_tables import LookupTables
from penstock.spark.session.own_session import made_in
from penstock.spark.sources import frames, reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class DeclaredSources:
    """The streams and tables that an engine was told of."""

    session: SparkSession
    catalog: Catalog
    tables: LookupTables
    _frames: dict[str, DataFrame] = field(default_factory=dict)  # of the program itself, by stream

    def enter(self, source: Stream | Table) -> None:
        """Enter a stream or table, with the columns that its source has if none are given."""
        whole = reading.with_columns(self.session, source)
        self.catalog.create_stream(whole) if isinstance(whole, Stream) else self.catalog.create_table(whole)

    def enter_frame(self, stream: Stream, frame: DataFrame) -> None:
        """Enter a streaming DataFrame as a stream."""
        frames.check_columns(stream)
        self.catalog.create_stream(stream)
        self._frames[stream.name] = frame

    def enter_table(self, name: str, source: DataFrame | pa.Table) -> None:
        """Enter a DataFrame or Arrow table as a table."""
        frame = made_in(self.session, source.combine_chunks()) if isinstance(source, pa.Table) else source
        self.tables.register(name, frame)
        self.catalog.create_table(Table(name, frames.columns_of(frame)))

    def open(self, stream: Stream) -> DataFrame:
        """Open a stream's source."""
        if stream.format is None:
            return frames.given_frame(self._frames, stream)
        return reading.read_stream(self.session, stream)
