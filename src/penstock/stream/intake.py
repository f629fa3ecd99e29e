"""Rows of a batch in, those to count out: duplicates are left out, invalid rows put aside, and rows kept if asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.evaluate.typed import Definition
from penstock.model.schema import Stream
from penstock.spark.aside import keep_aside
from penstock.spark.duplicates import Duplicates
from penstock.spark.waiting import Waiting
from penstock.spark.writer import Bounds
from penstock.stream.past import Past, Places
from penstock.stream.progress import NEVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Intake:
    """What happens to a stream's rows besides being counted."""

    def __init__(self, session: SparkSession, stream: Stream, places: Places) -> None:
        """Open the folders of keys and rows."""
        self.stream, self.places = stream, places
        self.past = Past(session, stream, places)
        self.waiting = Waiting(session, places.waiting, stream)
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

    def put_aside(self, batch: DataFrame, number: int, judged: Bounds) -> None:
        """Keep a batch's invalid rows where they can be looked at."""
        if self.places.invalid is not None:
            keep_aside(batch, self.stream.time, judged.ahead_us, self.places.invalid / f"{number:012d}")

    def kept_for_us(self, definitions: Iterable[Definition]) -> int:
        """Return for how long rows are kept; 0: not at all."""
        return max([self.stream.retain_rows_us, *(d.typed.rows_us for d in definitions)])

    def keep(self, rows: DataFrame, number: int, judged: Bounds, kept_for_us: int, frontier_us: int | None) -> None:
        """Keep a batch's rows if that is asked for; otherwise let go of all, for some would be missing."""
        if kept_for_us:
            self.past.keep(rows, number, judged.ahead_us, frontier_us)
        else:
            self.past.stop_keeping()

    def wait(self, rows: DataFrame, number: int, judged: Bounds, *, wanted: bool) -> None:
        """Let a batch's rows wait for the watermark if a query numbers rows; if none does any more, let go of all."""
        if wanted:
            self.waiting.keep(rows, number, judged.watermark_us, judged.ahead_us)
        else:
            self.waiting.expire(NEVER)

    def let_go(self, taken: Iterable[int | None]) -> tuple[int, int]:
        """Let go of rows that waited and were taken by all who number rows; return how many wait, and their bytes."""
        until = min((-NEVER if time is None else time for time in taken), default=-NEVER)
        self.waiting.expire(until)
        return self.waiting.waiting(until)

    def forget(self, watermark_us: int, kept_for_us: int) -> None:
        """Let go of keys and rows that are not needed any more."""
        if self.duplicates is not None:
            self.duplicates.expire(watermark_us)
        if kept_for_us:
            self.past.retained.expire(watermark_us - kept_for_us)

    def forget_after(self, number: int) -> None:
        """Forget keys and rows of commits that never were."""
        self.past.retained.forget_after(number)
        self.waiting.forget_after(number)
        if self.duplicates is not None:
            self.duplicates.forget_after(number)
