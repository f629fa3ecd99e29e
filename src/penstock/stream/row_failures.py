"""Pauses the queries that fail on rows, and remembers whose expressions are computed apart since."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.kernel.arrived import Arrived
from penstock.share.layout import Layout
from penstock.spark.failures import explain_failure
from penstock.spark.job.attempting_writer import watched_with
from penstock.stream.batch_job import BatchPartials
from penstock.stream.defect_isolation import charge_lanes
from penstock.stream.due_windows import DueWindows
from penstock.stream.pauses import failed_before, pause_for_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RowFailures:
    """What failed on rows of one stream."""

    def __init__(self, due_windows: DueWindows) -> None:
        """Start with none."""
        self.due_windows, self.progress = due_windows, due_windows.progress
        self.attempts: frozenset[int] = frozenset()  # queries that failed before: their expressions run apart

    def pause(self, batch: DataFrame, computed: BatchPartials, arrived: Arrived, layout: Layout | None) -> None:
        """Pause the queries that failed on a row, and run their expressions apart from now on; and for defects."""
        charge_lanes(self.due_windows, layout or computed.layout, arrived.last_us)
        by_id = {d.id: d for d in computed.layout.plan.definitions}
        self.attempts |= computed.doubting
        for number, (first, last, _) in arrived.failures.items():
            definition, reason = by_id[number], ""
            if number not in self.progress.windows.paused:
                reason = explain_failure(batch, computed.frames, computed.job, definition, first)
                self.due_windows.report(definition, f" is paused: {reason}", "query paused")
            pause_for_rows(self.progress, definition, first, last, reason)
            self.attempts |= {number}

    def watched(self, layout: Layout) -> Layout:
        """Let a layout compute apart what failed before."""
        known = self.attempts & {d.id for d in layout.plan.definitions} if self.attempts else self.attempts
        watched = watched_with(layout.plan.definitions, known) if known else known
        return replace(layout, attempts=watched) if watched else layout

    def keep(self, current: Collection[int]) -> None:
        """Forget the queries that are gone."""
        self.attempts = frozenset(number for number in self.attempts if number in current)

    def restore(self) -> None:
        """Know again, from who is paused, what failed before a restart."""
        self.attempts = failed_before(self.progress)
