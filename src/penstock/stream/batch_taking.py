"""Takes one batch of a stream: its job, what is filed and kept of it, its commit, and what is done after that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.errors import StreamEnded
from penstock.kernel.arrived import Arrived
from penstock.kernel.pending import Pending
from penstock.share.layout import Layout
from penstock.spark.job.counted_rows import CountedRows
from penstock.spark.job.held_rows import HeldRows
from penstock.spark.job.sampled_rows import weighted
from penstock.spark.job.writer import Bounds
from penstock.spark.sources.arriving_files import rows_after_end
from penstock.stream.batch_job import BatchPartials
from penstock.stream.continuous.row_storing import TakenBatch
from penstock.stream.corrections import LateRows
from penstock.stream.late_rows import note_too_late
from penstock.stream.metrics import Began
from penstock.stream.operators.answering import answer_what_is_through
from penstock.stream.snapshot import Snapshot
from penstock.stream.step import Step, counts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.stream.pipeline import Pipeline

FEW_ROWS: Final = 100_000  # of a batch: up to so many are kept without Spark's own way to write files
COMPACTED_EVERY: Final = 16  # commits between two looks at what can be put together or forgotten


@dataclass(frozen=True, slots=True)
class OfferedBatch:
    """A batch as a stream is given it."""

    rows: DataFrame
    number: int  # Spark's
    source: str
    began: Began
    reached_us: int | None  # where others say its time stands


class BatchTaking:
    """Takes the batches of a pipeline; what is in memory is had by the step, and not while the job runs."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Take batches for a pipeline, which says after which commit it begins."""
        self.pipeline = pipeline
        self.begin_after(-1)

    def begin_after(self, number: int) -> None:
        """Begin behind a commit: what could be put together by then was looked at."""
        self._looked = number

    def after_end(self, batch_id: int, source: str) -> StreamEnded:
        """Word that rows came after the stream had ended, and in which files."""
        return rows_after_end(self.pipeline.stream, self.pipeline.places.checkpoint, batch_id, source)

    def take(self, offer: OfferedBatch, snapshot: Snapshot) -> None:
        """Take one batch whole; while its job runs, final windows of earlier ones may be answered."""
        pipeline = self.pipeline
        with pipeline.step():
            layout, clock = pipeline.plan(snapshot), pipeline.clock()
            judged = pipeline.computing.judged_by(clock)
            number = pipeline.progress.clock.number + 1
        with pipeline.intake.without_duplicates(offer.rows, number, judged) as (rows, repeated):
            if layout.samples:
                sampling = pipeline.progress.clock.sampling, pipeline.progress.clock.twins
                rows = weighted(rows, layout, pipeline.stream.columns, *sampling)
            with pipeline.metrics.timed("job"):
                layout, computed, taken = self._compute(rows, number, layout, snapshot, judged)
            with pipeline.step(), pipeline.changing():
                arrived = self._file(offer, rows, number, computed, snapshot)
                self._charge(rows, computed, arrived, taken)
                before = pipeline.progress.clock.watermark_us
                pipeline.sessions.note_too_late(pipeline.sessions.take(computed.layout, before))
                due = self._advance(arrived, repeated, computed.layout, offer.reached_us)
                pipeline.sessions.close_after_batch(computed.layout)
                pipeline.note_sign_of_life(clock)
                pipeline.progress.clock.source = offer.source or pipeline.progress.clock.source
                step = Step("batch", due, clock, computed, arrived.highest, before, batch=offer.number)
                rows_taken = 0 if taken.commit is None else taken.commit.rows
                step = replace(step, before_us=before, taken=rows_taken, tables=taken.versions)
                pipeline.committer.commit(step, computed.layout)
                pipeline.continuous.deliver(taken, pipeline.metrics)
                pipeline.committer.answer_sessions(pipeline.sessions.due, computed.layout)
                watermark = pipeline.progress.clock.watermark_us
                pipeline.observing.batch(offer.began, step, number, arrived.rows, watermark)
                self._answer_and_tidy(step, layout, computed.layout, (arrived.touched, before), snapshot)
        with pipeline.step():
            answer_what_is_through(pipeline)
        pipeline.continuous.operator_answers.leaving.look(snapshot.continuous)
        if not pipeline.given.settings.cap.stops_background:
            pipeline.weaving.look()
            pipeline.given.settings.calibration.go_on()

    def _compute(
        self, rows: DataFrame, number: int, layout: Layout, snapshot: Snapshot, judged: Bounds
    ) -> tuple[Layout, BatchPartials, TakenBatch]:
        """Run the job of a batch: partials for windows, and the rows that continuous queries take."""
        pipeline = self.pipeline
        try:
            with pipeline.step():
                settle = partial(pipeline.committer.answer_all, layout)
                layout = pipeline.groupings.laid_out(layout, rows, snapshot.tables, judged, settle)
                pipeline.layout = replace(layout, attempts=frozenset()) if layout.attempts else layout
            beside, before_rows = pipeline.intake.sent_beside(snapshot), pipeline.computing.last_rows
            if layout.members or beside is not None or isinstance(rows, HeldRows | CountedRows):
                computed = pipeline.computing.run(rows, layout, snapshot.tables, judged, beside)
                return layout, computed, pipeline.continuous.take(rows, snapshot, judged, number, before_rows)
            taken = pipeline.continuous.take(rows, snapshot, judged, number, before_rows, counting=True)
            told = rows if taken.times is None else CountedRows(rows, taken.times)
            return layout, pipeline.computing.run(told, layout, snapshot.tables, judged), taken
        except BaseException:
            pipeline.intake.forget_after(number - 1)  # keys of a commit that never was
            pipeline.continuous.rows.forget(number)
            raise

    def _file(
        self, offer: OfferedBatch, rows: DataFrame, number: int, computed: BatchPartials, snapshot: Snapshot
    ) -> Arrived:
        """File the partials of a batch, and keep the rows that are wanted or invalid."""
        pipeline, clock = self.pipeline, self.pipeline.progress.clock
        pipeline.committer.answer_before_rows(computed.layout, computed.partials)
        with pipeline.metrics.timed("ingest"):
            arrived = pipeline.synopsis.ingest(computed.layout, computed.partials, computed.bounds.edges)
        clock.invalid += pipeline.intake.put_aside(rows, number, (offer.number, offer.source), computed)
        if arrived.shed:
            pipeline.progress.windows.note_shed(computed.layout, arrived.shed)
        if arrived.signed is not None and clock.twins.needs_more(clock.sampling):
            clock.twins = clock.twins.after(*arrived.signed)
        few = arrived.rows <= FEW_ROWS
        pipeline.intake.keep_for(snapshot, rows, number, computed, clock.seen_until_us, few=few)
        note_too_late(rows, computed, arrived, pipeline.computing, snapshot)
        return arrived

    def _charge(self, rows: DataFrame, computed: BatchPartials, arrived: Arrived, taken: TakenBatch) -> None:
        """Pause the queries that have failed on rows of a batch."""
        self.pipeline.failures.pause(rows, computed, arrived, self.pipeline.layout)
        for one in self.pipeline.continuous.charge(taken):
            self.pipeline.due_windows.report(one.definition, f" is paused: {one.reason}", "query paused")

    def _advance(self, arrived: Arrived, repeated: int, layout: Layout, reached_us: int | None) -> list[Pending]:
        """Move the stream's time by a batch and list the windows that became final."""
        clock, due_windows = self.pipeline.progress.clock, self.pipeline.due_windows
        clock.counts += counts_of(arrived, repeated)
        if arrived.first_us is None or arrived.last_us is None:
            return due_windows.after_batch(layout, None)
        self.pipeline.computing.see(arrived.first_us, arrived.last_us, arrived.rows)
        clock.see(arrived.first_us, arrived.last_us)
        watermark = clock.watermark_after(self.pipeline.stream.lateness_us)
        watermark = watermark if reached_us is None else max(watermark, reached_us)
        due = due_windows.after_batch(layout, watermark)
        clock.watermark_us = watermark
        return due

    # -- after the commit ----------------------------------------------------------------------------------------

    def _answer_and_tidy(self, step: Step, layout: Layout, filed: Layout, late: LateRows, snapshot: Snapshot) -> None:
        """Answer what a batch made final, or leave it for later; the same holds for what no answer needs."""
        pipeline, compact = self.pipeline, self._is_time_to_compact()
        tidying = pipeline.leftovers.tidying(pipeline.intake, snapshot.every, layout, compact=compact)
        answers = pipeline.leftovers.putting_together()
        if not (pipeline.lags or pipeline.defers_upkeep):
            pipeline.committer.answer(step.due, filed, late, self._compacting(filed) if compact else ())
            for _ in (*tidying, *(answers if compact else ())):
                pass
            return
        expiring = {"expiry": pipeline.answering(step.due, filed, late)}
        if compact:
            left = {"compaction": self._compacting(filed), "tidying": tidying}
            pipeline.upkeep.leave(left, expiring, {"answers": answers})
        else:
            pipeline.upkeep.leave({}, {**expiring, "passed rows": tidying})
        pipeline.upkeep.catch_up()

    def _compacting(self, layout: Layout) -> Iterator[None]:
        """Put the partials of commits together: a restart that answers the last one again must find all of its own."""
        pipeline = self.pipeline
        return pipeline.commits.compacting(lambda partials: pipeline.due_windows.needed(partials, layout))

    def _is_time_to_compact(self) -> bool:
        """Tell whether a multiple of so many commits was passed since the last batch: changes are commits too."""
        before, self._looked = self._looked, self.pipeline.progress.clock.number
        return self._looked // COMPACTED_EVERY > before // COMPACTED_EVERY
