"""Buffers rows on time until the watermark has passed them, for windows of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import SourceError
from penstock.model.schema import Stream
from penstock.spark.job.literals import quoted
from penstock.spark.kept_rows.commit_folders import TIME, CommitFolders
from penstock.spark.kept_rows.dead_letters import is_valid, micros_of
from penstock.spark.sources.frames import ddl_of

FEW_COUNTED: Final = 1_000_000  # rows: up to so many, those that wait are counted one by one
MOST_WAITING: Final = 50_000_000  # rows; beyond, a stream's lateness is too much for windows of rows


class RowBuffer:
    """Keeps, by commit, the rows that no watermark has passed yet; the same commit again replaces its own."""

    def __init__(self, session: SparkSession, folder: Path, stream: Stream) -> None:
        """Open the folder; after a crash call :meth:`forget_after` first."""
        self.session, self.stream = session, stream
        self.folders = CommitFolders(folder, "waiting")

    def keep(self, batch: DataFrame, number: int, watermark_us: int, ahead_us: int, *, few: bool) -> None:
        """Write the valid rows of a batch that are on time, all columns of the stream: one Spark job."""
        self.folders.compact(self.session, self._columns)
        micros = F.expr(micros_of(self.stream.time)).alias(TIME)
        rows = batch.select(*(F.col(quoted(c.name)) for c in self.stream.columns), micros)
        on_time = F.col(TIME) >= F.lit(watermark_us)
        self.folders.write(rows.where(is_valid(TIME, ahead_us)).where(on_time), number, few=few)
        if self.held()[0] > MOST_WAITING:
            self.folders.forget_after(number - 1)
            what = f'more than {MOST_WAITING:,} rows of stream "{self.stream.name}" wait for the watermark'
            detail = "Windows of rows take a row once no earlier one can come."
            raise SourceError(what, detail=detail, hint="Lower the stream's lateness, or drop its queries with ROWS.")

    def rows(self, session: SparkSession, since_us: int, before_us: int) -> tuple[DataFrame, int] | None:
        """Return the rows of a stretch of time with their times, and at most how many; None: there are none."""
        kept = self.folders.read(session, self._columns, since_us)
        if kept is None:
            return None
        most = sum(self.folders.rows_in(span) for span in self.folders.spans)
        return kept.where(f"{TIME} >= {since_us}L AND {TIME} < {before_us}L"), most

    def held(self) -> tuple[int, int]:
        """Return how many rows, and how many bytes, the files hold; some rows of a file may have been taken."""
        spans = self.folders.spans
        return sum(map(self.folders.rows_in, spans)), sum(map(self.folders.bytes_in, spans))

    def waiting(self, until_us: int) -> tuple[int, int]:
        """Return how many rows are not before a time, and the bytes of their files; of very many rows, a bound."""
        rows, size = self.held()
        if rows > FEW_COUNTED:
            return rows, size
        files = (path for span in self.folders.spans for path in self.folders.path(span).glob("*.parquet"))
        times = [pq.read_table(path, columns=[TIME])[TIME].to_numpy() for path in files]
        return sum(int((column >= until_us).sum()) for column in times), size

    def expire(self, before_us: int) -> None:
        """Delete the files all of whose rows are before a time."""
        self.folders.remove(self.folders.passed(before_us)[1])

    def forget_after(self, number: int) -> None:
        """Forget the rows of commits that never were."""
        self.folders.forget_after(number)

    @property
    def _columns(self) -> str:
        """Write the columns of the files as DDL."""
        return f"{ddl_of(self.stream.columns)}, {TIME} bigint"
