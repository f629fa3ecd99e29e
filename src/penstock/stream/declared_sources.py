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

    def whole(self, source: Stream | Table) -> Stream | Table:
        """Return a stream or table with the columns that its source has if none are given."""
        return reading.with_columns(self.session, source)

    def enter(self, source: Stream | Table) -> None:
        """Enter a stream or table."""
        whole = self.whole(source)
        self.catalog.create_stream(whole) if isinstance(whole, Stream) else self.catalog.create_table(whole)

    def enter_frame(self, stream: Stream, frame: DataFrame) -> None:
        """Enter a streaming DataFrame as a stream."""
        frames.check_columns(stream)
        self.catalog.create_stream(stream)
        self._frames[stream.name] = frame

    def keep_frame(self, stream: Stream, frame: DataFrame) -> None:
        """Keep the DataFrame that a stream of the catalog is read from."""
        frames.check_columns(stream)
        self._frames[stream.name] = frame

    def enter_table(self, name: str, source: DataFrame | pa.Table) -> None:
        """Enter a DataFrame or Arrow table as a table."""
        self.register(name, source)
        self.catalog.create_table(self.described(name, source))

    def register(self, name: str, source: DataFrame | pa.Table) -> None:
        """Keep what a table of the program holds."""
        self.tables.register(name, self._frame(source))

    def described(self, name: str, source: DataFrame | pa.Table) -> Table:
        """Describe a DataFrame or Arrow table as a table."""
        return Table(name, frames.columns_of(self._frame(source)))

    def _frame(self, source: DataFrame | pa.Table) -> DataFrame:
        """Return the DataFrame of what a program gave."""
        return made_in(self.session, source.combine_chunks()) if isinstance(source, pa.Table) else source

    def open(self, stream: Stream) -> DataFrame:
        """Open a stream's source."""
        if stream.format is None:
            return frames.given_frame(self._frames, stream)
        return reading.read_stream(self.session, stream)

    def check(self, stream: Stream) -> None:
        """Refuse a source that cannot be opened as it is now."""
        reading.checked(stream)
