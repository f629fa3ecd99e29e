"""Builds what processes the batches of one stream, each part with the neighbours that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.evaluate.finishing import Finished, FinishRequest
from penstock.kernel.answering import Answering
from penstock.kernel.synopsis import Synopsis
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.spark.answers.finish import finish
from penstock.spark.session.pools import EVALUATION, in_pool
from penstock.stream.admission import Admission
from penstock.stream.aggregation_choice import AggregationChoice
from penstock.stream.backfills import Backfills
from penstock.stream.batch_job import BatchJob
from penstock.stream.code_ahead import CodeAhead
from penstock.stream.context import StreamContext
from penstock.stream.due_windows import DueWindows
from penstock.stream.executor_state import ExecutorState, open_executor_state
from penstock.stream.grouping_plan import GroupingChooser
from penstock.stream.intake import Intake
from penstock.stream.leftovers import Leftovers
from penstock.stream.metrics import Metrics
from penstock.stream.progress import Progress
from penstock.stream.row_failures import RowFailures
from penstock.stream.step_committer import StepCommitter
from penstock.stream.tree_planner import TreePlanner
from penstock.stream.unanswered import UnansweredWindows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class StreamParts:
    """What is in memory of a stream; after a step that failed in the middle it is made anew from commits."""

    synopsis: Synopsis
    progress: Progress
    due_windows: DueWindows
    executor_state: ExecutorState | None
    computing: BatchJob
    groupings: GroupingChooser
    weaving: TreePlanner
    failures: RowFailures
    admission: Admission
    backfills: Backfills
    committer: StepCommitter
    leftovers: Leftovers
    code_ahead: CodeAhead


def _finished(session: SparkSession, requests: Sequence[FinishRequest]) -> list[Finished]:
    """Let Spark compute what Arrow cannot, in the pool of evaluations."""
    with in_pool(session, EVALUATION):
        return finish(session, requests)


def build_parts(given: StreamContext, intake: Intake, metrics: Metrics) -> StreamParts:
    """Build the parts of a stream of which nothing was seen yet."""
    settings, kind = given.settings, given.windows
    synopsis, progress = kind.synopsis(settings.kernel), Progress()
    due_windows = kind.due_windows(progress, synopsis)
    executor_state = open_executor_state(
        settings.session, given.places, settings.kernel, settings.strategy, given.stream.time, given.catalog
    )
    choice = AggregationChoice(settings.aggregation)
    computing = given.batch_job(given.stream, settings.tables, progress, executor_state, ConditionGroupMemory(), choice)
    groupings = GroupingChooser(computing, synopsis, given.commits, settings.max_driver_groups)
    failures = RowFailures(due_windows)
    answering = Answering(synopsis, lambda requests: _finished(settings.session, requests))
    committer = StepCommitter(
        given.commits,
        given.answers,
        due_windows,
        answering,
        executor_state,
        given.targets,
        lambda tables: kind.shown(tables, due_windows),
        UnansweredWindows(answering, settings.policy.current, settings.clock, progress.windows),
        metrics,
        given.places.checkpoint,
    )
    admission = Admission(intake.past, progress, synopsis, computing, due_windows, failures, groupings)
    choice, families = AggregationChoice(settings.aggregation), ConditionGroupMemory()
    aside = given.batch_job(given.stream, settings.tables, progress, None, families, choice)
    return StreamParts(
        synopsis,
        progress,
        due_windows,
        executor_state,
        computing,
        groupings,
        TreePlanner(settings.strategy, settings.rates, progress, synopsis, computing, groupings),
        failures,
        admission,
        Backfills(admission, aside, committer.past, given.stream.name),
        committer,
        Leftovers(given, committer),
        CodeAhead(settings.session, given.stream, settings.catalog, computing),
    )
