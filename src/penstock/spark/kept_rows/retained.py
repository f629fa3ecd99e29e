"""Keeps a stream's valid rows for a while, for queries and corrections to come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.model.schema import Stream
from penstock.spark.job.literals import quoted
from penstock.spark.kept_rows.commit_folders import TIME, CommitFolders, CommitSpan
from penstock.spark.kept_rows.dead_letters import is_valid, micros_of
from penstock.spark.session.own_session import made_in
from penstock.spark.sources.computed_columns import marked
from penstock.spark.sources.frames import ddl_of
from penstock.store.files import make_folder, read_record, write_record


class Retained:
    """Keeps a stream's rows by commit (`commit_folders.py`), and since when none of them is missing (``since.json``).

    Frames of :meth:`rows` read files that a later :meth:`keep` or :meth:`expire` may delete: use them before.
    """

    def __init__(self, session: SparkSession, folder: Path, stream: Stream) -> None:
        """Open the folder; after a crash call :meth:`forget_after` first."""
        self.session, self.stream = session, stream
        self.folders = CommitFolders(folder, "rows")
        self._record = self.folders.root / "since.json"
        self._readers = 0  # that still read folders which exist now
        self._since_us = int(read_record(self._record)["since_us"]) if self._record.exists() else None

    def begin(self, since_us: int) -> None:
        """Say from when on no row is missing: before the first batch that is kept, and after a gap."""
        if since_us != self._since_us:
            make_folder(self.folders.root)
            write_record(self._record, {"since_us": since_us})
            self._since_us = since_us

    def since_us(self) -> int | None:
        """Return from when on no row is missing; None: nothing was kept yet."""
        return self._since_us

    def keep(self, batch: DataFrame, number: int, ahead_us: int) -> None:
        """Write the valid rows of a batch, all columns of the stream, for the commit of the number: one Spark job."""
        if not self._readers:
            self.folders.compact(self.session, self._columns)
        micros = F.expr(micros_of(self.stream.time)).alias(TIME)
        rows = batch.select(*(F.col(quoted(c.name)) for c in self.stream.columns), micros)
        self.folders.write(rows.where(is_valid(TIME, ahead_us)), number)

    def rows(self, since_us: int, before_us: int, session: SparkSession | None = None) -> DataFrame:
        """Return the rows that are kept of a stretch of time, with the stream's columns."""
        kept = self.folders.read(session or self.session, self._columns, since_us)
        if kept is None:
            kept = made_in(session or self.session, [], self._columns)
        return self._within(kept, since_us, before_us)

    def hold(self) -> None:
        """Let no folder be put together or deleted until :meth:`release`: somebody reads them one after the other."""
        self._readers += 1

    def release(self) -> None:
        """Let folders be put together and deleted again."""
        self._readers -= 1

    def spans(self, since_us: int, after: int, upto: int) -> list[CommitSpan]:
        """List the folders of commits after one up to another that may hold rows since a time."""
        return [span for span in self.folders.since(since_us) if after < span.last <= upto]

    def rows_of(self, spans: Sequence[CommitSpan], stretch: tuple[int, int], session: SparkSession) -> DataFrame:
        """Return the rows of some folders and of a stretch of time."""
        return self._within(self.folders.frame(session, self._columns, spans), *stretch)

    def _within(self, kept: DataFrame, since_us: int, before_us: int) -> DataFrame:
        """Take the rows of a stretch of time, with the stream's columns."""
        rows = kept.where(f"{TIME} >= {since_us}L AND {TIME} < {before_us}L")
        return marked(rows.select(*(F.col(quoted(c.name)) for c in self.stream.columns)), self.stream.columns)

    def expire(self, before_us: int) -> None:
        """Delete the folders all of whose rows are before a time; what is left is whole after the last one deleted."""
        greatest_us, passed = self.folders.passed(before_us)
        if passed and not self._readers:
            if self._since_us is not None:
                self.begin(max(self._since_us, greatest_us + 1))
            self.folders.remove(passed)

    def forget_after(self, number: int) -> None:
        """Forget the rows of commits that never were."""
        self.folders.forget_after(number)

    @property
    def _columns(self) -> str:
        """Write the columns of the files as DDL."""
        return f"{ddl_of(self.stream.columns)}, {TIME} bigint"
