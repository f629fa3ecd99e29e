"""Numbers the rows that the watermark has passed, in batches from which windows of rows are answered.

Numbering stands at a time: every row before it is numbered, and no row after it. A batch takes the rows from there up
to the watermark, or up to the time at which a new query begins, so each query's numbers begin with its first row. The
time is the number of the batch, committed with it: a restart goes on from there, with the rows that still wait.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from penstock.evaluate.finishing import INSTANT
from penstock.evaluate.typed import Definition
from penstock.kernel.row_order import in_order, numbers_from
from penstock.model.arrays import Int64Array
from penstock.model.derived import NUMBER
from penstock.spark.job.held_rows import HeldRows
from penstock.spark.kept_rows import row_numbers
from penstock.spark.kept_rows.commit_folders import TIME
from penstock.spark.kept_rows.row_buffer import HASH
from penstock.spark.kept_rows.row_numbers import number_rows
from penstock.stream.admitted import Admitted
from penstock.stream.derived.derived_stream import DerivedStream
from penstock.stream.derived.numbered_catalog import placed
from penstock.stream.query_windows import NEVER
from penstock.stream.snapshot import Snapshot

_BATCHES: Final = NEVER  # a batch's number is its time and so much, which is never below 0


class RowWindowStream(DerivedStream):
    """The numbered rows of a stream, and the queries with windows of rows over them."""

    @property
    def until_us(self) -> int | None:
        """Return the time before which all rows are numbered; None: none is yet."""
        return self._until_us

    def begin(self) -> None:
        """Go on where the last commit stood."""
        batch = self.pipeline.progress.clock.batch
        self._until_us: int | None = None if batch < 0 else batch - _BATCHES

    # -- queries -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the catalog as the next batch sees it: the queries that have begun, on the line of row numbers."""
        whole, until = super().snapshot(), -NEVER if self._until_us is None else self._until_us
        begun = [d for d in whole.definitions if d.since_us is None or d.since_us <= until]
        starts, next_row = self.pipeline.progress.windows.starts, self.pipeline.progress.clock.seen_until_us or 0
        return placed(whole, begun, {d.id: starts.get(d.id, next_row) or 0 for d in begun}, self.leader.stream.time)

    def admit(self, new: list[Definition]) -> list[Admitted]:  # type: ignore[override]
        """Tell from when on new queries answer: from the first row that nobody has seen yet."""
        return [Admitted(d, None, "its rows are numbered from the first one after those seen so far") for d in new]

    # -- rows ----------------------------------------------------------------------------------------------------

    def take(self) -> None:
        """Number what the watermark has passed."""
        progress, wanted = self.leader.pipeline.progress, self.catalog.definitions(self.stream.name)
        passed = NEVER if progress.clock.ended else progress.clock.watermark_us
        if passed is None or not wanted:
            return
        begins = [-NEVER if d.since_us is None else d.since_us for d in wanted]
        if self._until_us is None or min(begins) > self._until_us:  # nobody needs what came before
            self._until_us = min(begins)
        for stop in sorted({*(b for b in begins if self._until_us < b < passed), passed}):
            if stop > self._until_us:
                self._number_until(stop)

    def batch_of(self, stop_us: int) -> int:
        """Return the number of the batch that numbers rows up to a time."""
        return stop_us + _BATCHES

    def _number_until(self, stop_us: int) -> None:
        """Number the rows up to a time, and let it be a batch; a few are numbered here, others by Spark."""
        rows = self._ordered(stop_us)
        if rows is not None:
            self._process_held(rows, numbers_from(self._next_number, rows), stop_us)
        else:
            assert self._until_us is not None
            found = self.leader.pipeline.intake.waiting.rows(self.session(), self._until_us, stop_us)
            if found is not None:
                numbered = number_rows(found[0], self.leader.stream.columns, self._next_number, found[1])
                self.pipeline.process(numbered, self.batch_of(stop_us), self.snapshot())
        self._until_us = stop_us

    @property
    def _next_number(self) -> int:
        """Return the number of the next row."""
        return self.pipeline.progress.clock.seen_until_us or 0

    def _ordered(self, stop_us: int) -> pa.Table | None:
        """Read the rows up to a time in their order; None: there are none, or too many, or Spark has to sort them."""
        assert self._until_us is not None
        rows = self.leader.pipeline.intake.waiting.collect(self._until_us, stop_us, row_numbers.FEW_ROWS)
        return None if rows is None else in_order(rows, TIME, HASH)

    def _process_held(self, rows: pa.Table, numbers: Int64Array, stop_us: int) -> None:
        """Let rows that were numbered here be a batch."""
        numbered = rows.append_column(NUMBER, pa.array(numbers).cast(INSTANT))
        held = HeldRows(self.session(), numbered, self.leader.stream.columns, NUMBER)
        self.pipeline.process(held, self.batch_of(stop_us), self.snapshot())
