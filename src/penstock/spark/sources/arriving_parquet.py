"""Looks into Parquet files as they come: whether they are whole, have the columns in use, and hold nanoseconds.

Their footers also tell how many rows a batch has and of which times, so that no job has to count them where no query
has a window.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from penstock.model.schema import Stream
from penstock.spark.job.counted_rows import CountedRows
from penstock.spark.sources.arriving_files import ArrivingFiles, ReadAgain
from penstock.spark.sources.nanoseconds import nanoseconds_of, rounded_columns, said_of
from penstock.spark.sources.parquet_times import times_in
from penstock.spark.sources.unreadable import MEND


class ArrivingParquet(ArrivingFiles):
    """Looks at the Parquet files of each batch before its rows are taken."""

    def __init__(self, stream: Stream, checkpoint: Path, tell: Callable[[str], None], again: ReadAgain) -> None:
        """Begin without a file seen."""
        super().__init__(stream, checkpoint, tell, again)
        self._rounded: frozenset[str] = frozenset()  # columns of which users know
        self._footers: dict[str, pq.FileMetaData] = {}  # of the batch that is looked at
        self._may_lack = any(k.lower() == "mergeschema" and v.lower() == "true" for k, v in stream.options.items())

    def _looked_into(self, path: str, needed: Sequence[str]) -> bool:
        """Refuse a file that cannot be read, unless it is to be passed over; tell whether it holds nanoseconds."""
        if not self._forgiving:
            footer = self._footers[path] = self._checked(path, needed)
            return self._has_nanoseconds(path, needed, footer)
        try:
            file = pq.read_metadata(path)
        except (OSError, pa.ArrowException):
            return False
        return self._has_nanoseconds(path, needed, file)

    def _counted(self, batch: DataFrame, paths: Sequence[str]) -> DataFrame:
        """Tell of a batch how many rows it has and of which times, if the footers of all its files do.

        A file may be passed over where unreadable ones are, and a folder named after a column says what its times are.
        """
        footers, self._footers = self._footers, {}
        time = next((column for column in self.stream.columns if column.name == self.stream.time), None)
        if time is None or any(p not in footers or f"/{time.name}=".lower() in p.lower() for p in paths):
            return batch
        times = times_in((footers[path] for path in paths), time)
        return batch if times is None else CountedRows(batch, times)

    def _has_nanoseconds(self, path: str, needed: Iterable[str], file: pq.FileMetaData) -> bool:
        """Tell whether a file holds columns in use in nanoseconds; the first time, tell users."""
        used = frozenset(needed)
        found = rounded_columns((c for c in self.stream.columns if c.name in used), nanoseconds_of(file))
        if found - self._rounded:
            self._tell(said_of(f'stream "{self.stream.name}"', found - self._rounded, path))
            self._rounded |= found
        return bool(found)

    def _checked(self, path: str, needed: Iterable[str]) -> pq.FileMetaData:
        """Refuse a file that is gone, is not whole or lacks a column in use."""
        self._refuse_missing(path)
        try:
            file = pq.read_metadata(path)
            found = {name.lower() for name in file.schema.to_arrow_schema().names}
        except PermissionError:
            raise self._refused(path, "permission denied", MEND.replace("Fix or replace", "Allow reading")) from None
        except (OSError, pa.ArrowException) as error:
            reason = "it is empty" if os.path.getsize(path) == 0 else _first_line(error)
            detail = "A file that is not whole is still being written, or was cut off."
            raise self._refused(path, reason, MEND, detail) from None
        expected = [name for name in needed if name not in self.stream.since]  # others came later than files may have
        lacking = [n for n in expected if n.lower() not in found and f"/{n.lower()}=" not in path.lower()]
        if lacking and not self._may_lack:
            hint = f"{MEND} If files may lack columns, declare the stream with mergeSchema = true: they are NULL then."
            raise self._refused(path, f'it has no column "{lacking[0]}"', hint, f"It has {', '.join(sorted(found))}.")
        return file


def _first_line(error: Exception) -> str:
    """Take what an error says first."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0].split("Either the file is corrupted")[0].rstrip(" .")
