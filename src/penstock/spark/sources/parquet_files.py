"""Reads Parquet files, those with times in nanoseconds too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from penstock.model.schema import Column, Stream, Table
from penstock.spark.messages import message_of
from penstock.spark.session.temporary_settings import cloned
from penstock.spark.sources.arriving_parquet import ArrivingParquet
from penstock.spark.sources.file_reader import FileReader, read_plainly
from penstock.spark.sources.frames import columns_of
from penstock.spark.sources.nanoseconds import (
    AS_NUMBERS,
    by_rounding,
    nanoseconds_in,
    nanoseconds_refused,
    read_rounded,
    said_of,
)
from penstock.spark.sources.path_patterns import is_pattern, literally
from penstock.spark.sources.readers import Tell
from penstock.spark.sources.unreadable import path_of


class ParquetFiles(FileReader):
    """Reads Parquet files."""

    looking = ArrivingParquet

    def read_files(
        self,
        session: SparkSession,
        item: Stream | Table,
        paths: Sequence[str],
        below: Mapping[str, str] | None,
        tell: Tell | None = None,
    ) -> DataFrame:
        """Read files as an item declares them, times in nanoseconds rounded."""
        frame = super().read_files(session, item, paths, below, tell)
        if below is None:
            return frame
        parts = by_rounding(item.columns, dict.fromkeys(map(path_of, frame.inputFiles())))
        for nanos, files in parts.items():
            if nanos and tell is not None:
                tell(said_of(f'table "{item.name}"', nanos, files[0]))
        if not any(parts):
            return frame

        def read(own: Sequence[Column], files: Sequence[str]) -> DataFrame:
            return read_plainly(session, item, own, list(map(literally, files)), below)

        return read_rounded(item.columns, parts, read)

    def read_aside(self, session: SparkSession, stream: Stream, paths: Sequence[str]) -> DataFrame | None:
        """Read files once more; None: some of their times are in nanoseconds, which Spark does not read."""
        return None if any(by_rounding(stream.columns, paths)) else super().read_aside(session, stream, paths)

    def inferred(self, session: SparkSession, item: Stream | Table, options: dict[str, str]) -> tuple[Column, ...]:
        """Take the columns that files say they have."""
        try:
            return super().inferred(session, item, options)
        except Exception as error:
            if "(NANOS" not in str(error):
                raise
        return _columns_with_nanoseconds(cloned(session, AS_NUMBERS), item, options)


def _columns_with_nanoseconds(
    session: SparkSession, item: Stream | Table, options: Mapping[str, str]
) -> tuple[Column, ...]:
    """Find the columns of files some of whose times are in nanoseconds; these are times, as files say, no numbers."""
    before = f'cannot find the columns of "{item.name}": '
    try:
        frame = session.read.format("parquet").options(**options).load(item.options["path"])
        columns, files = columns_of(frame), list(map(path_of, frame.inputFiles()))
    except Exception as error:
        raise nanoseconds_refused(before, message_of(error)) from None
    found = {one.path.lower(): one for file in files for one in nanoseconds_in(file)}
    if not found or (isinstance(item, Table) and is_pattern(item.options["path"])):
        raise nanoseconds_refused(before, "Only files that are named one by one and are on this machine are rounded.")
    if inside := [one.path for one in found.values() if one.nested]:
        raise nanoseconds_refused(before, f"{inside[0]} is inside of another column, and only whole ones are rounded.")
    times = {name: one.type for name, one in found.items()}
    return tuple(replace(c, type=times.get(c.name.lower(), c.type)) if c.type == "bigint" else c for c in columns)
