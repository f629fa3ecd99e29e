"""Reads the rows of a stream in a past range of time, from rows that are kept or from its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import SourceError
from penstock.model.schema import Stream
from penstock.spark.job.literals import quoted
from penstock.spark.kept_rows.commit_folders import CommitSpan
from penstock.spark.kept_rows.retained import Retained
from penstock.spark.sources.readers import Unit
from penstock.spark.sources.reading import check_history, has_units, history, history_units, read_units
from penstock.spark.sources.streaming_query import as_for_batches
from penstock.stream.query_windows import NEVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Places:
    """Where a stream keeps what is not in its logs."""

    keys: Path  # of rows, remembered to tell duplicates
    rows: Path  # kept for queries to come
    checkpoint: Path  # Spark's own
    waiting: Path  # rows that the watermark has not passed, for windows of rows
    joining: Path  # rows that may still find a partner in another stream
    taken: Path  # by continuous queries
    invalid: Path | None = None  # rows without a usable time; None: they are counted only
    spread: Path | None = None  # partials that executors keep; None: the driver keeps all
    answers: Path | None = None  # where executors write answers


@dataclass(frozen=True, slots=True)
class Cut:
    """A place between two batches: the source's position, and the last commit."""

    source: str = ""
    number: int = -1


class PastRows:
    """The rows that a stream had."""

    def __init__(self, session: SparkSession, stream: Stream, places: Places) -> None:
        """Open the folder of kept rows."""
        self.session, self.stream, self.places = session, stream, places
        self.retained = Retained(session, places.rows, stream)

    @property
    def kept_since_us(self) -> int:
        """Return from when on every row is kept; NEVER if none are."""
        since = self.retained.since_us()
        return NEVER if since is None else since

    @property
    def are_kept(self) -> bool:
        """Tell whether rows are kept at all."""
        return self.kept_since_us != NEVER

    def keep(self, batch: DataFrame, number: int, ahead_us: int, seen_until_us: int | None) -> None:
        """Keep a batch's rows; the first one says from when on none is missing."""
        if self.kept_since_us == NEVER:
            self.retained.begin(-NEVER if seen_until_us is None else seen_until_us)
        self.retained.keep(batch, number, ahead_us)

    def stop_keeping(self) -> None:
        """Let go of all rows: from now on some would be missing."""
        if self.kept_since_us != NEVER:
            self.retained.expire(NEVER)
            self.retained.begin(NEVER)

    def rows(
        self, since_us: int | None, before_us: int, source: str, *, accept_changed_files: bool = False
    ) -> DataFrame:
        """Return the rows of a stretch of time, from its beginning if none is given, up to a source's position."""
        low = -NEVER if since_us is None else since_us
        if self.kept_since_us <= low:
            return self.kept_rows(low, before_us)
        self._check_kind(source)
        about = self.stream, self.places.checkpoint, source
        rows = history(as_for_batches(self.session), *about, accept_changed=accept_changed_files)
        assert rows is not None
        return self._since(rows, since_us)

    @property
    def comes_in_units(self) -> bool:
        """Tell whether the past can be read in parts; a source that is of no use for it is refused elsewhere."""
        return self.are_kept or has_units(self.stream)

    def units(
        self, since_us: int | None, after: Cut, upto: Cut, *, accept_changed_files: bool
    ) -> list[CommitSpan] | list[Unit]:
        """List what holds the rows since a time that came after one cut up to another."""
        low = -NEVER if since_us is None else since_us
        if self.kept_since_us <= low:
            return self.retained.spans(low, after.number, upto.number)
        self._check_kind(upto.source)
        stretch = after.source, upto.source
        about = self.session, self.stream, self.places.checkpoint, stretch
        return history_units(*about, accept_changed=accept_changed_files)

    def rows_of(self, units: Sequence[CommitSpan] | Sequence[Unit], since_us: int | None, before_us: int) -> DataFrame:
        """Return the rows since a time that some units hold."""
        low, session = -NEVER if since_us is None else since_us, as_for_batches(self.session)
        if units and isinstance(units[0], CommitSpan):
            return self.retained.rows_of(units, (low, before_us), session)
        return self._since(read_units(session, self.stream, units), since_us)

    def _since(self, rows: DataFrame, since_us: int | None) -> DataFrame:
        """Leave out the rows before a time."""
        if since_us is None:
            return rows
        return rows.where(f"unix_micros(cast({quoted(self.stream.time)} as timestamp)) >= {since_us}L")

    def kept_rows(self, since_us: int, before_us: int) -> DataFrame:
        """Return the kept rows of a stretch of time, read as batches are."""
        return self.retained.rows(since_us, before_us, as_for_batches(self.session))

    def check(self, since_us: int | None, source: str, *, accept_changed_files: bool = False) -> None:
        """Make sure that rows can be had since a time, as they were unless changed files are accepted."""
        if self.kept_since_us <= (-NEVER if since_us is None else since_us):
            return
        self._check_kind(source)
        about = self.session, self.stream, self.places.checkpoint, source
        check_history(*about, accept_changed=accept_changed_files)

    def _check_kind(self, source: str) -> None:
        """Refuse a stream whose source cannot be read again."""
        if self.stream.dedup:
            raise self._gone("its duplicates were removed as rows arrived, which cannot be repeated")
        if self.stream.format is None:
            raise self._gone("they came from a program's own DataFrame, which cannot be read again")
        if not source:
            raise self._gone("its source keeps no record of what was read")

    def _gone(self, why: str) -> SourceError:
        """Build the error for rows that cannot be had any more."""
        return SourceError(
            f'the past rows of stream "{self.stream.name}" cannot be read again',
            detail=f"Its rows are not kept, and {why}.",
            hint="Leave out the option from, or keep rows with retain_rows = '1 h' for queries to come.",
        )
