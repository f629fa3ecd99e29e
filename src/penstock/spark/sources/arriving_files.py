"""Checks the files of each batch before their rows are taken: whole, and with the columns in use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.errors import SourceError
from penstock.model.schema import Stream
from penstock.spark.job.literals import quoted
from penstock.spark.sources.file_log import entries_between, offset_of
from penstock.spark.sources.file_versions import note
from penstock.spark.sources.frames import FILE_FORMATS, is_pattern, read_again
from penstock.spark.sources.nanoseconds import nanoseconds_of, rounded_columns, said_of
from penstock.spark.sources.unreadable import MEND, path_of


class ArrivingFiles:
    """Looks at the files of each batch before its rows are taken."""

    def __init__(self, stream: Stream, checkpoint: Path, tell: Callable[[str], None]) -> None:
        """Look into Spark's log of the source in a checkpoint; ``tell`` users what they should know."""
        self.stream, self.checkpoint, self._tell = stream, checkpoint, tell
        self._rounded: frozenset[str] = frozenset()  # columns of which users know
        options = {name.lower(): value.lower() for name, value in stream.options.items()}
        self._forgiving = "true" in (options.get("ignorecorruptfiles"), options.get("ignoremissingfiles"))
        self._may_lack = options.get("mergeschema") == "true"

    def looked_at(self, batch: DataFrame, batch_id: int, source: str) -> DataFrame:
        """Return the batch's rows, each once, or refuse a file that is not whole.

        Where a name holds a sign of patterns, Spark 4.3 reads each file of the batch once for every such name; and it
        reads no times in nanoseconds. Then the files are read anew.
        """
        if self.stream.format not in FILE_FORMATS or not source:
            return batch
        paths = files_of(self.stream, self.checkpoint, batch_id, source)
        note(self.checkpoint, batch_id, paths)
        needed, nanos = self._needed(batch.columns), False
        for path in paths:
            if path.startswith("/"):  # on a filesystem of this machine
                nanos |= self._has_nanoseconds(path, needed, self._file(path, needed))
        if nanos or (len(paths) > 1 and any(map(is_pattern, paths))):
            rows = read_again(batch.sparkSession, self.stream, paths)
            return rows.select(*(F.col(quoted(c)) for c in batch.columns))
        return batch

    def folder_gone(self) -> SourceError | None:
        """Say so if the folder that the stream reads is gone."""
        folder = self.stream.options.get("path", "")
        if self.stream.format not in FILE_FORMATS or is_pattern(folder) or "://" in folder or Path(folder).exists():
            return None
        hint = "Put the folder back and start again: nothing that was committed is lost."
        return SourceError(f'stream "{self.stream.name}" stopped: {folder} is gone', hint=hint)

    def _needed(self, columns: Iterable[str]) -> list[str]:
        """List the declared columns that a batch needs of its files."""
        used = {c.lower() for c in columns}
        texts = [(c.expression or "").lower() for c in self.stream.columns if c.name.lower() in used]
        declared = [c.name for c in self.stream.columns if c.expression is None]
        return [name for name in declared if name.lower() in used or any(name.lower() in text for text in texts)]

    def _has_nanoseconds(self, path: str, needed: Iterable[str], file: pq.FileMetaData | None) -> bool:
        """Tell whether a file holds columns in use in nanoseconds; the first time, tell users."""
        if file is None:
            return False
        used = frozenset(needed)
        found = rounded_columns((c for c in self.stream.columns if c.name in used), nanoseconds_of(file))
        if found - self._rounded:
            self._tell(said_of(f'stream "{self.stream.name}"', found - self._rounded, path))
            self._rounded |= found
        return bool(found)

    def _file(self, path: str, needed: Iterable[str]) -> pq.FileMetaData | None:
        """Look into a Parquet file; one that cannot be read is refused, unless it is to be passed over."""
        if not self._forgiving:
            return self._checked(path, needed)
        with suppress(OSError, pa.ArrowException):
            return pq.read_metadata(path) if self.stream.format == "parquet" else None
        return None

    def _checked(self, path: str, needed: Iterable[str]) -> pq.FileMetaData | None:
        """Refuse a file that is gone, and a Parquet file that is not whole or lacks a column in use."""
        if not os.path.exists(path):
            raise self._refused(path, "it is gone", MEND.replace("Fix or replace", "Put back"))
        if self.stream.format != "parquet":
            return None
        try:
            file = pq.read_metadata(path)
            found = {name.lower() for name in file.schema.to_arrow_schema().names}
        except PermissionError:
            raise self._refused(path, "permission denied", MEND.replace("Fix or replace", "Allow reading")) from None
        except (OSError, pa.ArrowException) as error:
            reason = "it is empty" if os.path.getsize(path) == 0 else _first_line(error)
            detail = "A file that is not whole is still being written, or was cut off."
            raise self._refused(path, reason, MEND, detail) from None
        lacking = [n for n in needed if n.lower() not in found and f"/{n.lower()}=" not in path.lower()]
        if lacking and not self._may_lack:
            hint = f"{MEND} If files may lack columns, declare the stream with mergeSchema = true: they are NULL then."
            raise self._refused(path, f'it has no column "{lacking[0]}"', hint, f"It has {', '.join(sorted(found))}.")
        return file

    def _refused(self, path: str, reason: str, hint: str, detail: str | None = None) -> SourceError:
        """Word why a file is refused."""
        return SourceError(
            f'stream "{self.stream.name}" stopped: cannot read {path}: {reason}', detail=detail, hint=hint
        )


def _first_line(error: Exception) -> str:
    """Take what an error says first."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0].split("Either the file is corrupted")[0].rstrip(" .")


def files_of(stream: Stream, checkpoint: Path, batch_id: int, source: str) -> list[str]:
    """List the files of a batch, by Spark's log of the source in a checkpoint."""
    last = int(offset_of(stream, source).get("logOffset", -1))
    before = checkpoint / "offsets" / str(batch_id - 1)
    first = last
    if before.exists():
        first = int(offset_of(stream, before.read_text()).get("logOffset", -1)) + 1
    return [path_of(str(e["path"])) for e in entries_between(stream, checkpoint, first, last)]
