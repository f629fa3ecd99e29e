"""Defines a frame of a batch whose rows need not be counted: its files, or rows that were sent, tell what it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from penstock.share.layout import Layout
from penstock.share.partial_schema import FIRST_TIME, LABEL, LAST_TIME, LATE_COUNT, ROW_COUNT
from penstock.spark.job.writer import Bounds
from penstock.store.invalid import AHEAD, FLOOR, TOO_EARLY


class RowTimes(Protocol):
    """What is known of the times of a batch's rows."""

    def counted(self, bounds: Bounds) -> pa.Table | None:
        """Return the partials of a plan without windows; None: too little is known."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """How many rows there are, all of which have a time, and the first and last of these times."""

    rows: int
    first_us: int
    last_us: int

    def counted(self, bounds: Bounds) -> pa.Table | None:
        """Count the rows where none is late or too far ahead: how many of them are, nobody knows."""
        if self.first_us < bounds.watermark_us or self.first_us <= FLOOR or self.last_us >= _ahead(bounds):
            return None
        return _partials([(0, self.rows, self.last_us, self.first_us, 0)])


@dataclass(frozen=True, slots=True)
class SentTimes:
    """The times of all rows, NULL where a row has none."""

    times: pa.ChunkedArray

    def counted(self, bounds: Bounds) -> pa.Table:
        """Count the rows, those apart that are not valid, as the job does."""
        there = self.times.is_valid().to_numpy()
        times = np.asarray(self.times.fill_null(0).to_numpy(), np.int64)
        early, ahead = there & (times <= FLOOR), there & (times >= _ahead(bounds))
        kinds = {None: ~there, TOO_EARLY: early, AHEAD: ahead, 0: there & ~early & ~ahead}
        found = []
        for label, mine in kinds.items():
            if mine.any():
                own = times[mine]
                late = int((own < bounds.watermark_us).sum())
                found.append((label, len(own), int(own.max()), int(own.min()), late))
        return _partials(found)


class CountedRows(ClassicFrame):
    """A frame of a whole batch; what is made of it by Spark tells nothing of its times any more."""

    def __init__(self, batch: DataFrame, times: RowTimes) -> None:
        """Take a batch and what is known of it."""
        super().__init__(cast(Any, batch)._jdf, batch.sparkSession)
        self.times = times


def counts_told(batch: DataFrame, layout: Layout, bounds: Bounds) -> pa.Table | None:
    """Return the partials of a batch for a layout that only counts rows; None: Spark has to count them."""
    if layout.members or not isinstance(batch, CountedRows):
        return None
    return batch.times.counted(bounds)


def _ahead(bounds: Bounds) -> int:
    """Return the first time that is too far ahead: never one that is late."""
    return max(bounds.watermark_us + 1, bounds.ahead_us)


def _partials(found: list[tuple[int | None, int, int, int, int]]) -> pa.Table:
    """Write partials: label, rows, last and first time, late rows."""
    names = [LABEL, ROW_COUNT, LAST_TIME, FIRST_TIME, LATE_COUNT]
    columns = list(zip(*found, strict=True)) or [()] * len(names)
    return pa.table({name: pa.array(values, pa.int64()) for name, values in zip(names, columns, strict=True)})
