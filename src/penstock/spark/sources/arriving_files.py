"""Checks the files of each batch before their rows are taken: whole, and with the columns in use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import SourceError, StreamEnded
from penstock.model.schema import Stream
from penstock.spark.job.literals import quoted
from penstock.spark.sources.file_log import entries_between, offset_of
from penstock.spark.sources.file_versions import note
from penstock.spark.sources.path_patterns import is_pattern
from penstock.spark.sources.unreadable import MEND, path_of

ReadAgain: TypeAlias = Callable[[SparkSession, Sequence[str]], DataFrame]  # files, as the stream declares them
MOST_TOLD: Final = 5  # files that hold rows after the end


class ArrivingFiles:
    """Looks at the files of each batch before its rows are taken."""

    def __init__(self, stream: Stream, checkpoint: Path, tell: Callable[[str], None], again: ReadAgain) -> None:
        """Look into Spark's log of the source in a checkpoint; ``tell`` users what they should know."""
        self.stream, self.checkpoint, self._tell, self._again = stream, checkpoint, tell, again
        options = {name.lower(): value.lower() for name, value in stream.options.items()}
        self._forgiving = "true" in (options.get("ignorecorruptfiles"), options.get("ignoremissingfiles"))

    def looked_at(self, batch: DataFrame, batch_id: int, source: str) -> DataFrame:
        """Return the batch's rows, each once, or refuse a file that is not whole.

        Where a name holds a sign of patterns, Spark 4.3 reads each file of the batch once for every such name; it reads
        no times in nanoseconds; and of a stream that has had another path it does not know which folders name columns.
        Then the files are read anew.
        """
        if not source:
            return batch
        paths = files_of(self.stream, self.checkpoint, batch_id, source)
        note(self.checkpoint, batch_id, paths)
        needed, anew = self._needed(batch.columns), self.stream.moved
        for path in paths:
            if path.startswith("/"):  # on a filesystem of this machine
                anew |= self._looked_into(path, needed)
        if anew or (len(paths) > 1 and any(map(is_pattern, paths))):
            rows = self._again(batch.sparkSession, paths)
            return rows.select(*(F.col(quoted(c)) for c in batch.columns))
        return self._counted(batch, paths)

    def gone(self) -> SourceError | None:
        """Say so if the folder that the stream reads is gone."""
        folder = self.stream.options.get("path", "")
        if is_pattern(folder) or "://" in folder or Path(folder).exists():
            return None
        hint = "Put the folder back and start again: nothing that was committed is lost."
        return SourceError(f'stream "{self.stream.name}" stopped: {folder} is gone', hint=hint)

    def _needed(self, columns: Iterable[str]) -> list[str]:
        """List the declared columns that a batch needs of its files."""
        used = {c.lower() for c in columns}
        texts = [(c.expression or "").lower() for c in self.stream.columns if c.name.lower() in used]
        declared = [c.name for c in self.stream.columns if c.expression is None]
        return [name for name in declared if name.lower() in used or any(name.lower() in text for text in texts)]

    def _looked_into(self, path: str, needed: Sequence[str]) -> bool:
        """Look at a file of this machine, and refuse one that is gone; tell whether it must be read in another way."""
        if not self._forgiving:
            self._refuse_missing(path)
        return False

    def _counted(self, batch: DataFrame, paths: Sequence[str]) -> DataFrame:
        """Tell of a batch how many rows it has and of which times, if its files do; here: they do not."""
        return batch

    def _refuse_missing(self, path: str) -> None:
        """Refuse a file that is gone."""
        if not os.path.exists(path):
            raise self._refused(path, "it is gone", MEND.replace("Fix or replace", "Put back"))

    def _refused(self, path: str, reason: str, hint: str, detail: str | None = None) -> SourceError:
        """Word why a file is refused."""
        return SourceError(
            f'stream "{self.stream.name}" stopped: cannot read {path}: {reason}', detail=detail, hint=hint
        )


def files_of(stream: Stream, checkpoint: Path, batch_id: int, source: str) -> list[str]:
    """List the files of a batch, by Spark's log of the source in a checkpoint."""
    last = int(offset_of(stream, source).get("logOffset", -1))
    before = checkpoint / "offsets" / str(batch_id - 1)
    first = last
    if before.exists():
        first = int(offset_of(stream, before.read_text()).get("logOffset", -1)) + 1
    return [path_of(str(e["path"])) for e in entries_between(stream, checkpoint, first, last)]


def rows_after_end(stream: Stream, checkpoint: Path, batch_id: int, source: str) -> StreamEnded:
    """Word that rows came after a stream had ended, and in which files."""
    files = files_of(stream, checkpoint, batch_id, source) if source and "path" in stream.options else []
    more = f" and {len(files) - MOST_TOLD} more" if len(files) > MOST_TOLD else ""
    detail = f"in {', '.join(files[:MOST_TOLD])}{more}" if files else None
    what = f'stream "{stream.name}" was ended, but more rows came'
    return StreamEnded(what, detail=detail, hint="Start a new state folder for new rows.")
