"""Buffers rows on time until the watermark has passed them, for windows of rows.

A few rows are written by the driver, with their hash, which is the second thing that they are sorted by: such files are
read, sorted and numbered without Spark. Files of many rows, of columns with parts, or of versions before have no hash.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import SourceError
from penstock.model.schema import Stream
from penstock.share.row_schema import BASE_FLAG
from penstock.share.row_schema import TIME as ROW_TIME
from penstock.spark.job.jvm_columns import JvmColumns
from penstock.spark.job.literals import quoted
from penstock.spark.kept_rows.commit_folders import TIME, CommitFolders, is_plain
from penstock.spark.kept_rows.dead_letters import is_valid, micros_of
from penstock.spark.kept_rows.row_numbers import hash_of
from penstock.spark.session.own_session import schema_in
from penstock.spark.sources.frames import ddl_of
from penstock.store.invalid import FLOOR

HASH: Final = "__hash"  # of a row's columns; streams have no column of this name
FEW_COUNTED: Final = 1_000_000  # rows: up to so many, those that wait are counted one by one
MOST_WAITING: Final = 50_000_000  # rows; beyond, a stream's lateness is too much for windows of rows


class RowBuffer:
    """Keeps, by commit, the rows that no watermark has passed yet; the same commit again replaces its own."""

    def __init__(self, session: SparkSession, folder: Path, stream: Stream) -> None:
        """Open the folder; after a crash call :meth:`forget_after` first."""
        self.session, self.stream = session, stream
        self.folders = CommitFolders(folder, "waiting")

    @cached_property
    def sent(self) -> JvmColumns | None:
        """Write what a batch's job may send beside its own columns, to spare a job; None: Spark writes such rows."""
        if not is_plain(schema_in(self.session, self._columns)) or any(
            "collate" in c.type for c in self.stream.columns
        ):
            return None
        named = [F.col(quoted(c.name)).alias(f"__b{place}") for place, c in enumerate(self.stream.columns)]
        return JvmColumns([*named, hash_of(self.stream.columns).alias(HASH)])

    def keep(self, batch: DataFrame, number: int, watermark_us: int, ahead_us: int, *, few: bool) -> None:
        """Write the valid rows of a batch that are on time, all columns of the stream: one Spark job."""
        columns = [F.col(quoted(c.name)) for c in self.stream.columns]
        if few and self.sent is not None:
            columns.append(hash_of(self.stream.columns).alias(HASH))
        rows = batch.select(*columns, F.expr(micros_of(self.stream.time)).alias(TIME))
        on_time = F.col(TIME) >= F.lit(watermark_us)
        self._keep(rows.where(is_valid(TIME, ahead_us)).where(on_time), number, few=few)

    def keep_sent(self, rows: pa.Table, number: int, watermark_us: int, ahead_us: int) -> None:
        """Write the valid rows on time that a batch's job has sent with the columns of :attr:`sent`."""
        times = rows[ROW_TIME].fill_null(FLOOR).to_numpy()
        wanted = (times > FLOOR) & (times < ahead_us) & (times >= watermark_us)
        if BASE_FLAG in rows.column_names:
            wanted &= np.asarray(rows[BASE_FLAG].fill_null(False).to_numpy(), np.bool_)
        named = {c.name: rows[f"__b{place}"] for place, c in enumerate(self.stream.columns)}
        table = pa.table({**named, HASH: rows[HASH], TIME: rows[ROW_TIME]})
        self._keep(table.filter(pa.array(wanted)), number, few=True)

    def _keep(self, rows: DataFrame | pa.Table, number: int, *, few: bool) -> None:
        """Write rows for a commit."""
        self.folders.compact(self.session, self._columns, written_here=HASH)
        self.folders.write(rows, number, few=few)
        if self.held()[0] > MOST_WAITING:
            self.folders.forget_after(number - 1)
            what = f'more than {MOST_WAITING:,} rows of stream "{self.stream.name}" wait for the watermark'
            detail = "Windows of rows take a row once no earlier one can come."
            raise SourceError(what, detail=detail, hint="Lower the stream's lateness, or drop its queries with ROWS.")

    def collect(self, since_us: int, before_us: int, most: int) -> pa.Table | None:
        """Read the rows of a stretch of time with their times and hashes, at most so many; None: Spark has to."""
        kept = self.folders.collect(since_us, HASH, most)
        if kept is None or not {c.name for c in self.stream.columns} <= set(kept.column_names):  # some came later
            return None
        times = kept[TIME].to_numpy()
        return kept.filter(pa.array((times >= since_us) & (times < before_us)))

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
        """Write the columns of the files as DDL, without the hash, which Spark has no need of."""
        return f"{ddl_of(self.stream.columns)}, {TIME} bigint"
