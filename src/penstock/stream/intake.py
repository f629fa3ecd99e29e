"""Filters the rows of a batch: drops duplicates, writes dead letters, and keeps rows where a query asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.evaluate.typed import Definition
from penstock.model.schema import Stream
from penstock.spark.job.jvm_columns import JvmColumns
from penstock.spark.job.writer import Bounds
from penstock.spark.kept_rows.dead_letters import example_of, keep_aside
from penstock.spark.kept_rows.duplicates import Duplicates
from penstock.spark.kept_rows.join_rows import JoinRows
from penstock.spark.kept_rows.row_buffer import RowBuffer
from penstock.spark.sources.computed_columns import doubtful_columns
from penstock.spark.sources.readers import Position
from penstock.spark.sources.reading import read_whole
from penstock.spark.sources.unread_files import UnreadFiles
from penstock.store.commits import AskedPast
from penstock.store.invalid import Invalid
from penstock.stream.batch_job import BatchPartials
from penstock.stream.past_rows import PastRows, Places
from penstock.stream.query_windows import NEVER
from penstock.stream.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Arrival: TypeAlias = tuple[int, str]  # Spark's number of a batch, and the source's position


class Intake:
    """What happens to a stream's rows besides being counted."""

    def __init__(self, session: SparkSession, stream: Stream, places: Places) -> None:
        """Open the folders of keys and rows."""
        self.stream, self.places = stream, places
        self.past = PastRows(session, stream, places)
        self.waiting = RowBuffer(session, places.waiting, stream)
        self.joining = JoinRows(session, places.joining, stream)
        self.doubtful = doubtful_columns(session, stream.columns)  # computed ones that may fail on a row
        self.unread = UnreadFiles(stream, places.checkpoint)
        self._explained = False  # a time that failed; one example tells enough
        self.duplicates = Duplicates(session, stream.dedup, stream.time, places.keys) if stream.dedup else None

    @contextmanager
    def without_duplicates(self, batch: DataFrame, number: int, judged: Bounds) -> Iterator[tuple[DataFrame, int]]:
        """Give a batch without its duplicates, and how many those were."""
        if self.duplicates is None:
            yield batch, 0
            return
        try:
            yield self.duplicates.split(batch, number, judged.watermark_us, judged.ahead_us)
        finally:
            self.duplicates.release()

    def put_aside(self, rows: DataFrame, number: int, arrival: Arrival, computed: BatchPartials) -> Invalid:
        """Keep a batch's invalid rows where they can be looked at; return why they are, with an example if need be."""
        told, judged = computed.job.invalid, computed.bounds
        folder = None if self.places.invalid is None else self.places.invalid / f"{number:012d}"
        if told.rows and folder is not None:
            keep_aside(rows, lambda: self._whole(rows.sparkSession, *arrival), self.stream, judged, told, folder)
        if not told.failed or self._explained:
            return told
        self._explained = True
        [time] = [column for column in self.stream.columns if column.name == self.stream.time]
        return replace(told, example=example_of(rows, time, folder))

    def _whole(self, session: SparkSession, batch_id: int, source: str) -> DataFrame | None:
        """Read a batch once more with all its columns; None: its source cannot do that."""
        return read_whole(session, self.stream, Position(self.places.checkpoint, source), batch_id)

    def kept_for_us(self, definitions: Iterable[Definition]) -> int:
        """Return for how long rows are kept; 0: not at all."""
        return max([self.stream.retain_rows_us, *(d.typed.rows_us for d in definitions)])

    def sent_beside(self, at: Snapshot) -> JvmColumns | None:
        """Write what a batch's job is to send beside its own columns, if it sends rows; None: nothing."""
        return self.waiting.sent if at.numbered else None

    def keep_for(
        self,
        at: Snapshot,
        rows: DataFrame,
        number: int,
        computed: BatchPartials,
        seen_until_us: int | None,
        *,
        few: bool,
    ) -> None:
        """Keep a batch's rows, ``few`` or many, as queries ask for it; what nobody asks for any more is let go of.

        Rows are kept for questions and for queries to come, wait for the watermark where a query numbers rows, and for
        rows of another stream where they are joined.
        """
        judged, sent = computed.bounds, computed.beside
        if at.joined is not None:
            self.joining.keep(rows, number, judged.watermark_us, judged.ahead_us, at.joined)
        else:
            self.joining.expire_all()
        if self.kept_for_us(at.every):
            self.past.keep(rows, number, judged.ahead_us, seen_until_us)
        else:
            self.past.stop_keeping()
        if at.numbered and sent is not None:
            self.waiting.keep_sent(sent, number, judged.watermark_us, judged.ahead_us)
        elif at.numbered:
            self.waiting.keep(rows, number, judged.watermark_us, judged.ahead_us, few=few)
        else:
            self.waiting.expire(NEVER)

    def let_go(self, taken: Iterable[int | None]) -> tuple[int, int]:
        """Let go of rows that waited and were taken by all who number rows; return how many wait, and their bytes."""
        until = min((-NEVER if time is None else time for time in taken), default=-NEVER)
        self.waiting.expire(until)
        return self.waiting.waiting(until)

    def forget(self, watermark_us: int, kept_for_us: int, asked: Iterable[AskedPast] = ()) -> None:
        """Let go of keys and rows that are not needed any more; rows of a past that is ``asked`` for are to be read."""
        if self.duplicates is not None:
            self.duplicates.expire(watermark_us)
        if kept_for_us:
            since = [-NEVER if one.since_us is None else one.since_us for one in asked]
            self.past.retained.expire(min([watermark_us - kept_for_us, *since]))

    def forget_after(self, number: int) -> None:
        """Forget keys and rows of commits that never were."""
        self.past.retained.forget_after(number)
        self.waiting.forget_after(number)
        self.joining.forget_after(number)
        if self.duplicates is not None:
            self.duplicates.forget_after(number)
