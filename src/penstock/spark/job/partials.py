"""Computes a batch's partials: the single Spark job of a batch.

Every row gets its event time, its place before or after the watermark, its slice, and for each grouping its keys
and its cell, which tells the conditions that take it; rows with equal ones are aggregated in Catalyst, and cells
become signatures (one bit for each condition).
Columns of the result: ``label`` (slice or granule, NULL for invalid rows), ``grouping``, ``s0``… (signature),
``k0``… (keys), ``rows``, ``base`` (rows of the stream itself), ``first`` and ``last`` (times), ``late``, and
``c0_0``… (partials).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.kernel.row_aggregation import LeftOut, RowAggregation
from penstock.kernel.row_placement import RowPlacement, can_be_placed
from penstock.kernel.row_projection import RowProjection
from penstock.kernel.signing import Sent, Signing
from penstock.model.query import Join
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.share.layout import Layout
from penstock.spark.answers.executor_state import Collecting
from penstock.spark.job.attempt import GUARDS_KEPT, attempt_struct
from penstock.spark.job.attempting_writer import AttemptingWriter
from penstock.spark.job.counted_rows import counts_told
from penstock.spark.job.held_rows import HeldRows
from penstock.spark.job.jvm_columns import (
    CollectedRows,
    JvmColumns,
    keep,
    observed,
    observing,
    plan,
    with_texts,
    written,
)
from penstock.spark.job.literals import quoted
from penstock.spark.job.row_writer import RowWriter
from penstock.spark.job.sampled_rows import whole
from penstock.spark.job.writer import MARKS, Bounds, Writer
from penstock.spark.session.temporary_settings import INTERPRETED, set_for_now
from penstock.spark.sources.computed_columns import with_inputs
from penstock.store.invalid import FLOOR, Invalid, without_reasons

LEFT_OUT: Final = "left out"  # what is observed of the rows that a job does not send
FEW_PARTIALS: Final = 20_000  # of the batch before: up to so many, one task puts them together
MANY_COPIES: Final = 1_000_000  # of all rows of a batch …
MOST_PLACED: Final = 200_000  # rows of a batch whose slices and cells the driver finds, however many cores Spark has …
MOST_PLACED_ON_ONE: Final = 2_000_000  # … and if it has one; the driver does so on one core
COPIES_A_ROW: Final = 32  # … and of each: from these on, sending rows to all cores is little beside copying them

Beside: TypeAlias = JvmColumns  # columns that a job sends beside its own, for others


class PartialsJob:
    """The job of one layout: its columns are written once and used for every batch."""

    sends_rows: ClassVar = False  # which the driver aggregates

    def __init__(self, layout: Layout, families: ConditionGroupMemory) -> None:
        """Write the columns and keep them in the JVM; ``families`` tells how the stream grouped conditions so far."""
        self.layout = layout
        self.expected_rows = 0  # of a batch
        self.cores = MOST_PLACED_ON_ONE // MOST_PLACED  # of Spark
        self.beside: Beside | None = None  # what else is sent of each row, where rows are sent
        self.is_sampled = False  # of the rows of the next batch, some are shed
        self._sent_beside: pa.Table | None = None
        self.invalid = Invalid()  # rows of the last batch
        self.collected = CollectedRows()
        self.writer = self._writer(families)
        self.signing = Signing(layout, self.writer.cells, list(self.writer.tried))
        watched = [d for d in layout.plan.definitions if d.id in layout.attempts]
        self._watched_joins = {join.id for d in watched for join in d.query.joins}
        used = with_inputs({layout.time, *layout.plan.columns}, layout.doubtful)
        self._used = keep([written(quoted(c)) for c in sorted(used)])
        self._prepare()

    @cached_property
    def _rows(self) -> list[JvmColumns]:
        """Write a row's own columns, step by step; a job whose rows the driver places needs none."""
        return [keep(columns) for columns in self.writer.rows()]

    def _writer(self, families: ConditionGroupMemory) -> Writer:
        """Choose who writes the expressions."""
        return (AttemptingWriter if self.layout.attempts else Writer)(self.layout, families)

    def _prepare(self) -> None:
        """Write what comes after the rows' own columns."""
        copies = self.writer.copies()
        self._copies = None if copies is None else keep(copies)
        self._by = keep(self.writer.by())
        self._aggregates = keep([*self.writer.statistics(), *self.writer.partials()])

    @property
    def shape(self) -> tuple[object, ...]:
        """Return what the code that Spark generates for the job depends on."""
        return self.writer.shape

    def run(
        self,
        batch: DataFrame,
        tables: Mapping[str, DataFrame],
        bounds: Bounds,
        *,
        interpreted: bool = False,
        into: Collecting | None = None,
    ) -> pa.Table:
        """Compute a batch's partials; ``interpreted``: without generating code for it.

        Those of spread groupings are written ``into`` files by the executors.
        """
        if (found := self._without_spark(batch, bounds)) is None:
            settings = {**(GUARDS_KEPT if self.layout.attempts else {}), **(INTERPRETED if interpreted else {})}
            with set_for_now(batch.sparkSession, settings):
                frame = self.frame(batch, tables, bounds)
                found = into.run(frame, self.layout, self.signing) if into is not None else self._found(frame, bounds)
        self.invalid, partials = without_reasons(found, bounds.clock_us)
        return partials

    def taken_beside(self) -> pa.Table | None:
        """Hand out the rows of the last batch if more was sent of them than is aggregated; they are kept no longer."""
        sent, self._sent_beside = self._sent_beside, None
        return sent

    def _without_spark(self, batch: DataFrame, bounds: Bounds) -> pa.Table | None:
        """Compute the partials here; None: Spark has to run the job."""
        if (told := counts_told(batch, self.layout, bounds)) is not None:
            self.signing.sent = Sent()  # nothing was
        return told

    def _found(self, frame: DataFrame, bounds: Bounds) -> pa.Table:
        """Let Spark run the job, and give its partials their signatures."""
        return self.signing.sign(self.collected.of(frame))

    def compile(self, batch: DataFrame, bounds: Bounds) -> None:
        """Let Spark plan the job for a batch and generate its code, without running it."""
        plan(self.frame(batch, {}, bounds))

    def frame(self, batch: DataFrame, tables: Mapping[str, DataFrame], bounds: Bounds) -> DataFrame:
        """Build the job for a batch without running it."""
        rows = self.rows(batch, tables, bounds)
        if self._copies is not None:
            rows = self._copies.select(self._spread(rows)).where("__c >= 0")
        partials = self._by.group(rows, self._aggregates, self.writer.leading(bounds))
        few = not self.layout.key_types and self.signing.sent.partials <= FEW_PARTIALS
        return partials.coalesce(1) if few else partials

    def _spread(self, rows: DataFrame) -> DataFrame:
        """Spread rows that are copied very often over all cores: a small batch comes in one piece."""
        copies = len(self.layout.members)
        if copies < COPIES_A_ROW or copies * self.expected_rows < MANY_COPIES:
            return rows
        return rows.repartition(rows.sparkSession.sparkContext.defaultParallelism, "__t")

    def rows(self, batch: DataFrame, tables: Mapping[str, DataFrame], bounds: Bounds) -> DataFrame:
        """Add to a batch's rows their time, places and cells."""
        rows = with_texts(self.joined(batch, tables), self.writer.numbers(bounds))
        for columns in self._rows:
            rows = columns.select(rows)
        return rows

    def joined(self, batch: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
        """Add the columns of the plan's tables to those of the batch."""
        batch = whole(batch, self.layout)
        rows = batch if not self.layout.plan.joins or self.beside is not None else self._used.select(batch)
        for join in self.layout.plan.joins:
            attempted = join.id in self._watched_joins
            keys = [self.writer.guarded(k) if attempted else k for k in join.stream_keys]
            rows = _joined(rows, join, keys, tables[join.id], attempted=attempted)
        return rows


class RowsJob(PartialsJob):
    """The job of one layout whose rows the driver aggregates: a projection, without a shuffle."""

    sends_rows: ClassVar = True

    def _writer(self, families: ConditionGroupMemory) -> Writer:
        """Choose who writes the expressions."""
        self._written = RowWriter(self.layout, families)
        return self._written

    def _prepare(self) -> None:
        """Write the columns that are sent."""
        self._projection = RowProjection(self.layout, self._written.schema, self._written.values)
        self._placement = self._placed_by()
        self._texts = [] if self._placement is None else self._written.plain()
        self._plain = keep([written(text) for text in self._texts])
        self._before = self._written.before()
        self._aggregation = RowAggregation(self.layout, self._written.schema, self.signing.words)

    def _placed_by(self) -> RowPlacement | None:
        """Prepare to find slices and cells in the driver; None: Spark has to find them."""
        writer = self._written
        if not can_be_placed(self.layout, writer.cells, writer.lone):
            return None
        return RowPlacement(self.layout, writer.schema, writer.tested(writer.cells), writer.tested(writer.lone))

    @property
    def shape(self) -> tuple[object, ...]:
        """Return what the code that Spark generates for the job depends on."""
        if self._placing is None:
            return super().shape
        return tuple(self._texts), tuple(self._written.attempted), self.layout.plan.joins

    @cached_property
    def _sent(self) -> JvmColumns:
        """Write the columns that are sent with slices and cells."""
        return keep(self._written.sent())

    @property
    def _placing(self) -> RowPlacement | None:
        """Return who finds slices and cells in the driver; on one core, so Spark does it for very many rows."""
        most = max(MOST_PLACED, MOST_PLACED_ON_ONE // self.cores)
        return self._placement if self.expected_rows <= most else None

    def _without_spark(self, batch: DataFrame, bounds: Bounds) -> pa.Table | None:
        """Compute the partials of rows that the driver holds, where only plain columns are asked for."""
        if not isinstance(batch, HeldRows):
            return None if self.beside is not None else super()._without_spark(batch, bounds)
        sent = self._projection.sent(batch.rows, bounds.watermark_us, bounds.ahead_us, bounds.edges)
        return None if sent is None else self._aggregated(sent, bounds)

    def frame(self, batch: DataFrame, tables: Mapping[str, DataFrame], bounds: Bounds) -> DataFrame:
        """Build the job for a batch without running it."""
        sent = self._sent if self._placing is None else self._plain
        sent = sent if self.beside is None else keep((*sent.columns, *self.beside.columns))
        if self._placing is None:
            return sent.select(self.rows(batch, tables, bounds))
        rows = self.joined(batch, tables)
        if self._leaves_out:
            rows = self._without_left_out(rows, bounds)
        return sent.select(keep(self._before).select(rows) if self._before else rows)

    @property
    def _leaves_out(self) -> bool:
        """Tell whether rows that are shed need not be sent: all queries shed load, and nobody wants whole rows."""
        members = self.layout.members
        alone = self.beside is None and not self.layout.plan.joins and self._placing is not None
        return self.is_sampled and alone and all(member.sheds for member in members)

    def _without_left_out(self, rows: DataFrame, bounds: Bounds) -> DataFrame:
        """Leave out the rows that are only to be counted, and count them in passing."""
        gone, time = self._written.left_out(), self._written.time
        marked = with_texts(rows, {MARKS: self._written.marks(bounds)})
        told = [f"count_if({gone}) AS n", f"min(IF({gone}, {time}, NULL)) AS a", f"max(IF({gone}, {time}, NULL)) AS b"]
        return observing(marked, LEFT_OUT, told).where(f"NOT ({gone})")

    def _found(self, frame: DataFrame, bounds: Bounds) -> pa.Table:
        """Let Spark send the rows, and aggregate them."""
        placing = self._placing
        alone = self.beside is None
        rows = self.collected.of(frame, second_form=placing is not None) if alone else frame.toArrow()
        self._sent_beside = None if alone else rows
        left_out = _left_out(frame) if self._leaves_out else None
        if left_out is not None:
            rows = left_out.with_ends(rows)
        if placing is not None:
            rows = placing.placed(rows, bounds.watermark_us, _ahead(bounds), bounds.edges)
        return self._aggregated(rows, bounds, left_out)

    def _aggregated(self, rows: pa.Table, bounds: Bounds, left_out: LeftOut | None = None) -> pa.Table:
        """Aggregate rows, and give their partials signatures."""
        partials = self._aggregation.partials(rows, bounds.watermark_us, bounds.ahead_us, left_out)
        found = self.signing.sign(partials)
        self.signing.sent = replace(self.signing.sent, bytes=rows.nbytes, rows=rows.num_rows)
        return found


def _left_out(frame: DataFrame) -> LeftOut | None:
    """Read which rows a job has left out; None: there was none."""
    count, first, last = observed(frame, LEFT_OUT)
    return None if not count or first is None or last is None else LeftOut(count, first, last)


def _ahead(bounds: Bounds) -> int:
    """Return the first time that is too far ahead: never one that is late."""
    return max(bounds.watermark_us + 1, bounds.ahead_us)


def _joined(rows: DataFrame, join: Join, texts: Sequence[str], table: DataFrame, *, attempted: bool) -> DataFrame:
    """Join a table so that no row is lost: unmatched rows have no ``#`` number, repeated ones count up from 0."""
    keys = [F.expr(text) for text in texts]
    if attempted:  # a key that fails matches nothing; the failure itself is charged by the writer
        rows = rows.select("*", *(attempt_struct(k).alias(f"__j{join.id}.{i}") for i, k in enumerate(keys)))
        keys = [F.col(quoted(f"__j{join.id}.{i}"))["v"] for i in range(len(keys))]
    condition: Column = keys[0] == F.col(quoted(f"{join.id}.@0"))
    for position, key in enumerate(keys[1:], 1):
        condition = condition & (key == F.col(quoted(f"{join.id}.@{position}")))
    return rows.join(F.broadcast(table), condition, "left")


def time_span(batch: DataFrame, time: str, ahead_us: int) -> tuple[int, int]:
    """Find the first and last valid time of a batch: a job of its own, for a stretch that cannot be foreseen."""
    spans = _valid_times(batch, time, ahead_us).agg(F.min("t"), F.max("t")).toArrow()
    low, high = spans.column(0)[0].as_py(), spans.column(1)[0].as_py()
    return (0, 0) if low is None else (low, high)


def first_time(batch: DataFrame, time: str, ahead_us: int) -> int:
    """Find the valid time of some row, the first that Spark reads: a job that ends there. 0: there is none."""
    found = _valid_times(batch, time, ahead_us).head(1)
    return int(found[0]["t"]) if found else 0


def _valid_times(batch: DataFrame, time: str, ahead_us: int) -> DataFrame:
    """Select the times of a batch that are valid."""
    micros = F.expr(f"unix_micros(cast({quoted(time)} as timestamp))")
    return batch.select(micros.alias("t")).where((F.col("t") < ahead_us) & (F.col("t") > FLOOR))
