"""Finds out on which row a continuous query failed, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.evaluate.typed import Definition
from penstock.kernel.arrived import by_grouping, statistics
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.share.continuous import plan_continuous
from penstock.spark.failures import explain_failure
from penstock.spark.job.partials import PartialsJob
from penstock.spark.job.writer import Bounds
from penstock.store.commits import Paused
from penstock.stream.continuous.running_plan import FailedQuery, RunningPlan
from penstock.stream.query_windows import QueryWindows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Charged:
    """A query that failed on a row of a batch, and why."""

    definition: Definition
    first_us: int
    reason: str


def pause(charged: Iterable[Charged], windows: QueryWindows) -> None:
    """Pause the queries that failed on a row."""
    for one in charged:
        windows.paused[one.definition.id] = Paused(one.first_us, one.first_us, one.first_us, one.reason)


def charged_for(
    failed: Sequence[FailedQuery],
    running: RunningPlan,
    batch: DataFrame,
    frames: Mapping[str, DataFrame],
    bounds: Bounds,
) -> list[Charged]:
    """Find out on which row each query failed, and why; conditions are attempted apart for that."""
    known = {one.definition.id: one.first_us for one in failed if one.first_us is not None}
    unsure = [one.definition for one in failed if one.first_us is None]
    if unsure:
        known |= _first_failures(unsure, running, batch, frames, bounds)
    found = []
    for one in failed:
        if (first := known.get(one.definition.id)) is not None:
            reason = explain_failure(batch, frames, running.job, one.definition, first)
            found.append(Charged(one.definition, first, reason))
    assert found, "a condition failed, and nobody's fails when it is attempted alone"
    return found


def _first_failures(
    definitions: Sequence[Definition],
    running: RunningPlan,
    batch: DataFrame,
    frames: Mapping[str, DataFrame],
    bounds: Bounds,
) -> dict[int, int]:
    """Attempt conditions apart, and return the time of the first row on which each fails."""
    whole = running.plan.layout
    layout = plan_continuous(definitions, whole.time, 0, whole.doubtful).layout
    layout = replace(layout, attempts=frozenset(d.id for d in definitions))
    partials = PartialsJob(layout, ConditionGroupMemory()).run(batch, frames, bounds)
    arrived = statistics(layout, by_grouping(partials, len(layout.members))[0])
    return {number: first for number, (first, _, _) in arrived.failures.items()}
