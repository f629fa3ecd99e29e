"""Records one step of a stream as a commit: all that a restart has to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.kernel.arrived import Arrived
from penstock.kernel.described import about
from penstock.kernel.pending import DueRecord, Pending
from penstock.share.grouping_rollup import to_record
from penstock.share.layout import Layout
from penstock.share.plan import SESSIONS
from penstock.store.checkpoints import checkpoint_id
from penstock.store.commits import Commit, Counts, Kind
from penstock.stream.batch_job import BatchPartials
from penstock.stream.progress import Progress


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a stream: a batch, a heartbeat, rows of the past, or a change of its queries."""

    kind: Kind
    due: Sequence[Pending]  # that it made final
    clock_us: int
    computed: BatchPartials | None = None
    highest: int | None = None  # slice among the partials
    judged_us: int | None = None  # the watermark before it, of a batch
    before_us: int | None = None  # the same, of any step
    batch: int | None = None  # Spark's number; None: no batch of Spark's
    backfilled: tuple[int, ...] = ()  # definitions whose lanes were rebuilt
    waiting: Sequence[Pending] = ()  # that steps before made final, and that are not answered yet
    past: Sequence[Pending] = ()  # of backfills, that are not answered yet
    taken: int = 0  # rows that continuous queries took
    tables: Mapping[str, str] = field(default_factory=dict)  # that these joined, with their versions

    @property
    def about(self) -> bytes | None:
        """Describe the partials for their readers."""
        return None if self.computed is None else about(self.computed.layout)


def commit_of(step: Step, layout: Layout, progress: Progress, checkpoint: Path, answered: int | None) -> Commit:
    """Write down where a stream stands after a step."""
    computed, fed = step.computed, step.batch is not None
    return Commit(
        number=progress.clock.number + 1,
        batch=progress.clock.batch if step.batch is None else step.batch,
        catalog_version=layout.plan.version,
        watermark_us=progress.clock.watermark_us,
        last_us=progress.clock.last_us,
        first_us=progress.clock.first_us,
        clock_us=step.clock_us,
        counts=progress.clock.counts,
        invalid=progress.clock.invalid,
        too_late=_written(progress.windows.too_late),
        source=progress.clock.source,
        tables={**({} if computed is None else computed.versions), **step.tables},
        taken=step.taken,
        past_taken=tuple(sorted(progress.windows.past_taken)),
        operated=_written(progress.windows.operated),
        due=_recorded(step),
        asked={str(number): one for number, one in progress.windows.asked.items()},
        past=_exactly(step.past),
        starts=_written({k: v for k, v in progress.windows.starts.items() if v is not None}),
        next_ends={str(number): progress.windows.next_ends.get(number) for number in progress.windows.starts},
        first_ends=_written(progress.windows.first_ends),
        resumed_ends=_written(progress.windows.resumed_ends),
        departed=dict(progress.windows.departed),
        silences={str(number): (one.empty, one.skipped) for number, one in progress.windows.silences.items()},
        failed=_written(progress.windows.failed_us),
        skipped=_written(progress.windows.skipped),
        sampling=progress.clock.sampling,
        asked_sampling=progress.clock.asked_sampling,
        twins=progress.clock.twins.to_record(),
        shed=_written(progress.windows.shed),
        paused={str(k): v for k, v in progress.windows.paused.items()},
        attempts=tuple(sorted(layout.attempts)),
        edges={} if computed is None else {str(t): list(e) for t, e in computed.bounds.edges.items()},
        ended=progress.clock.ended,
        highest=step.highest,
        kind=step.kind,
        judged_us=step.judged_us,
        before_us=step.before_us if step.kind in ("batch", "heartbeat") else progress.clock.watermark_us,
        in_order=any(tree.space == SESSIONS for tree in layout.plan.trees),
        backfilled=step.backfilled,
        answered=answered,
        trees=layout.plan.woven,
        feeding=to_record(layout.feeding),
        checkpoint=checkpoint_id(checkpoint) if fed and progress.clock.source else None,
    )


def _recorded(step: Step) -> dict[str, list[DueRecord]]:
    """Write down which windows are not answered yet, by definition."""
    found = _exactly(step.waiting)
    for one in step.due:
        found.setdefault(str(one.definition.id), []).append(one.record())
    return found


def _exactly(pending: Sequence[Pending]) -> dict[str, list[DueRecord]]:
    """Write down every run of windows, by definition."""
    found: dict[str, list[DueRecord]] = {}
    for one in pending:
        found.setdefault(str(one.definition.id), []).append(one.exact_record())
    return found


def counts_of(arrived: Arrived, repeated: int) -> Counts:
    """Count what became of a batch's rows; ``repeated`` ones were left out before."""
    return Counts(
        ingested=arrived.rows + repeated,
        on_time=arrived.on_time,
        corrected=arrived.corrected,
        late=arrived.late,
        invalid=arrived.invalid,
        duplicate=repeated,
    )


def _written(times: dict[int, int | None] | dict[int, int]) -> dict[str, int]:
    """Write times by definition as JSON has them."""
    return {str(number): time for number, time in times.items() if time is not None}
