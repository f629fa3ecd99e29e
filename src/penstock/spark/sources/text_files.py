"""Reads files of CSV and JSON, whose rows may not parse."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.model.schema import Column, Stream, Table
from penstock.spark.sources.file_reader import FileReader, read_options
from penstock.spark.sources.frames import RECORD, ddl_brought


class TextFiles(FileReader):
    """Reads files of text."""

    def inferred(self, session: SparkSession, item: Stream | Table, options: dict[str, str]) -> tuple[Column, ...]:
        """Infer types from values."""
        return super().inferred(session, item, {"inferSchema": "true"} | options)

    def read_aside(self, session: SparkSession, stream: Stream, paths: Sequence[str]) -> DataFrame | None:
        """Read files once more; each row tells its file, and its text if that does not parse."""
        named = {name.lower(): value.lower() for name, value in read_options(stream).items()}
        if "columnnameofcorruptrecord" in named or named.get("mode", "permissive") != "permissive":
            return super().read_aside(session, stream, paths)
        columns, more = f"{ddl_brought(stream.columns)}, {RECORD} string", {"columnNameOfCorruptRecord": RECORD}
        return self.read_telling(session, stream, paths, more, columns, [F.col(RECORD)])
