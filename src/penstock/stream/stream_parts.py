"""Builds what processes the batches of one stream, each part with the neighbours that it needs."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.kernel.answering import Answering
from penstock.kernel.synopsis import Synopsis
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.stream.admission import Admission
from penstock.stream.batch_job import BatchJob
from penstock.stream.code_ahead import CodeAhead
from penstock.stream.context import StreamContext
from penstock.stream.continuous.continuous_queries import ContinuousQueries
from penstock.stream.due_windows import DueWindows
from penstock.stream.executor_state import ExecutorState, open_executor_state
from penstock.stream.grouping_plan import GroupingChooser
from penstock.stream.intake import Intake
from penstock.stream.leftovers import Leftovers
from penstock.stream.metrics import Metrics, Observing
from penstock.stream.progress import Progress
from penstock.stream.row_failures import RowFailures
from penstock.stream.sessions import StreamSessions
from penstock.stream.step_committer import StepCommitter
from penstock.stream.tree_planner import TreePlanner
from penstock.stream.unanswered import UnansweredWindows


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
    committer: StepCommitter
    leftovers: Leftovers
    code_ahead: CodeAhead
    continuous: ContinuousQueries
    sessions: StreamSessions


def build_parts(given: StreamContext, intake: Intake, metrics: Metrics, observing: Observing) -> StreamParts:
    """Build the parts of a stream of which nothing was seen yet."""
    settings, kind = given.settings, given.windows
    synopsis, progress = kind.synopsis(settings.kernel, settings.cap.growth), Progress()
    due_windows = kind.due_windows(progress, synopsis, settings.clock)
    executor_state = open_executor_state(
        settings.session, given.places, settings.kernel, settings.strategy, given.stream.time, given.catalog
    )
    families, choice = ConditionGroupMemory(), settings.aggregation_choice
    computing = given.batch_job(given.stream, settings.tables, progress, executor_state, families, choice)
    groupings = GroupingChooser(computing, synopsis, given.commits, settings.max_driver_groups)
    failures = RowFailures(due_windows)
    answering = Answering(synopsis, given.ask_spark)
    continuous = ContinuousQueries(given, progress, intake.doubtful)
    committer = StepCommitter(
        given.commits,
        given.answers,
        due_windows,
        answering,
        executor_state,
        given.targets,
        lambda tables: kind.shown(tables, due_windows),
        UnansweredWindows(
            answering, settings.policy.current, settings.synchronize.current, settings.clock, progress.windows
        ),
        metrics,
        observing,
        given.places.checkpoint,
    )
    return StreamParts(
        synopsis,
        progress,
        due_windows,
        executor_state,
        computing,
        groupings,
        TreePlanner(settings.strategy, settings.rates, progress, synopsis, computing, groupings),
        failures,
        Admission(intake.past, progress, synopsis, computing, due_windows, failures, groupings),
        committer,
        Leftovers(given, committer, continuous),
        CodeAhead(settings.session, given.stream, settings.catalog, computing),
        continuous,
        StreamSessions(synopsis, progress),
    )
