"""A batch of a stream of files in, the same out after a look at its files: whole, and with the columns in use."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.errors import SourceError
from penstock.model.schema import Stream
from penstock.spark.file_log import entries_between, offset_of
from penstock.spark.literals import quoted
from penstock.spark.sources import FILE_FORMATS, is_pattern, read_again
from penstock.spark.unreadable import MEND, path_of


class Arriving:
    """Looks at the files of each batch before its rows are taken."""

    def __init__(self, stream: Stream, checkpoint: Path) -> None:
        """Look into Spark's log of the source in a checkpoint."""
        self.stream, self.checkpoint = stream, checkpoint
        options = {name.lower(): value.lower() for name, value in stream.options.items()}
        self._forgiving = "true" in (options.get("ignorecorruptfiles"), options.get("ignoremissingfiles"))
        self._may_lack = options.get("mergeschema") == "true"

    def looked_at(self, batch: DataFrame, batch_id: int, source: str) -> DataFrame:
        """Return the batch's rows, each once, or refuse a file that is not whole.

        Where a name holds a sign of patterns, Spark 4.3 reads each file of the batch once for every such name: the
        files are read anew.
        """
        if self.stream.format not in FILE_FORMATS or not source:
            return batch
        paths = self.files(batch_id, source)
        if not self._forgiving:
            needed = self._needed(batch.columns)
            for path in paths:
                if path.startswith("/"):  # on a filesystem of this machine
                    self._check(path, needed)
        if len(paths) > 1 and any(map(is_pattern, paths)):
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

    def files(self, batch_id: int, source: str) -> list[str]:
        """List the files of a batch."""
        last = int(offset_of(self.stream, source).get("logOffset", -1))
        before = self.checkpoint / "offsets" / str(batch_id - 1)
        first = last
        if before.exists():
            first = int(offset_of(self.stream, before.read_text()).get("logOffset", -1)) + 1
        return [path_of(str(e["path"])) for e in entries_between(self.stream, self.checkpoint, first, last)]

    def _needed(self, columns: Iterable[str]) -> list[str]:
        """List the declared columns that a batch needs of its files."""
        used = {c.lower() for c in columns}
        texts = [(c.expression or "").lower() for c in self.stream.columns if c.name.lower() in used]
        declared = [c.name for c in self.stream.columns if c.expression is None]
        return [name for name in declared if name.lower() in used or any(name.lower() in text for text in texts)]

    def _check(self, path: str, needed: Iterable[str]) -> None:
        """Refuse a file that is gone, and a Parquet file that is not whole or lacks a column in use."""
        if not os.path.exists(path):
            raise self._refused(path, "it is gone", MEND.replace("Mend or replace", "Put back"))
        if self.stream.format != "parquet":
            return
        try:
            found = {name.lower() for name in pq.read_schema(path).names}
        except PermissionError:
            raise self._refused(path, "permission denied", MEND.replace("Mend or replace", "Allow reading")) from None
        except (OSError, pa.ArrowException) as error:
            reason = "it is empty" if os.path.getsize(path) == 0 else _first_line(error)
            detail = "A file that is not whole is still being written, or was cut off."
            raise self._refused(path, reason, MEND, detail) from None
        lacking = [n for n in needed if n.lower() not in found and f"/{n.lower()}=" not in path.lower()]
        if lacking and not self._may_lack:
            hint = f"{MEND} If files may lack columns, declare the stream with mergeSchema = true: they are NULL then."
            raise self._refused(path, f'it has no column "{lacking[0]}"', hint, f"It has {', '.join(sorted(found))}.")

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
