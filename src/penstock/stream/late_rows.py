"""Counts the rows of a batch that came too late for each query, with a job where partials do not tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.evaluate.typed import Definition
from penstock.kernel.arrived import Arrived
from penstock.kernel.too_late import count_too_late
from penstock.share.layout import lay_out
from penstock.share.plan import plan_queries
from penstock.spark.kept_rows.dead_letters import micros_of
from penstock.stream.batch_job import BatchJob, BatchPartials
from penstock.stream.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def note_too_late(
    rows: DataFrame, computed: BatchPartials, arrived: Arrived, computing: BatchJob, at: Snapshot
) -> None:
    """Count a batch's late rows for the queries that they came too late for.

    The batch's partials tell, but for those that executors keep and rows before all edges that were searched: then a
    job looks at the late rows alone. Windows of rows number no late row at all.
    """
    late, progress = arrived.late + arrived.corrected, computing.progress
    if not late:
        return
    layout, watermark = computed.layout, computed.bounds.watermark_us
    ends = {d.id: progress.windows.lost_ends(d, watermark) for d in layout.plan.definitions}
    found = count_too_late(layout, computed.partials, computed.bounds.edges, ends)
    if found is None:
        again = _of_late_rows(rows, computed, computing)
        found = count_too_late(again.layout, again.partials, {}, ends) or {}
    found |= dict.fromkeys(at.numbered, late)
    known = ends.keys() | at.numbered
    both = {number: progress.windows.too_late.get(number, 0) + found.get(number, 0) for number in known}
    progress.windows.too_late = {number: rows for number, rows in both.items() if rows}


def _of_late_rows(rows: DataFrame, computed: BatchPartials, computing: BatchJob) -> BatchPartials:
    """Run a job over the late rows of a batch, for their slices and conditions alone."""
    layout, watermark = computed.layout, computed.bounds.watermark_us
    plan = plan_queries([_bare(d) for d in layout.plan.definitions], "shared paired", layout.plan.version)
    bare = replace(lay_out(plan, layout.time, None, layout.doubtful), attempts=layout.attempts)
    late = rows.where(f"{micros_of(layout.time)} < {watermark}L")
    return computing.once_more(late, bare, computed)


def _bare(definition: Definition) -> Definition:
    """Take from a query its groups and aggregates: what is left takes the same rows into the same windows."""
    typed = definition.typed
    query = replace(typed.query, keys=(), aggregates=())
    return replace(definition, typed=replace(typed, query=query, key_types=(), aggregates=(), argument_types=()))
