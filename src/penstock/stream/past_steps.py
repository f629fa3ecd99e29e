"""Takes the steps by which queries of a running stream get their past: asked for, read aside, taken over, answered.

Each is short, and is called between two batches, but for the answers. What others do meanwhile they find as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.errors import PenstockError
from penstock.evaluate.typed import Definition
from penstock.language.options import says_changes
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.stream.admission import NeededPast
from penstock.stream.backfill_tickets import BackfillTicket, BackfillTickets
from penstock.stream.backfills import Backfills
from penstock.stream.past_rows import Cut
from penstock.stream.snapshot import Snapshot
from penstock.stream.step import Step

if TYPE_CHECKING:
    from penstock.stream.pipeline import Pipeline

LOG: Final = logging.getLogger("penstock")


class PastSteps:
    """The steps of one stream that concern its past."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Prepare; :meth:`renew` is called when the parts of the pipeline are there."""
        self.pipeline, self.tickets = pipeline, BackfillTickets()
        self._backfills: Backfills | None = None

    @property
    def backfills(self) -> Backfills:
        """Return what is asked for."""
        assert self._backfills is not None
        return self._backfills

    def renew(self) -> None:
        """Begin with nothing read: what is asked for is told by commits."""
        pipeline, given = self.pipeline, self.pipeline.given
        if self._backfills is not None:
            self._backfills.stop()
        choice, families = given.settings.aggregation_choice, ConditionGroupMemory()
        aside = given.batch_job(given.stream, given.settings.tables, pipeline.progress, None, families, choice)
        self._backfills = Backfills(pipeline.admission, aside, pipeline.committer.past, given.stream.name)

    @property
    def is_aside(self) -> bool:
        """Tell whether the past is read while batches go on: otherwise they wait for it."""
        return self.pipeline.lags and self.pipeline.admission.past.comes_in_units

    def try_out(self, snapshot: Snapshot, new: Definition) -> list[NeededPast]:
        """Raise if a query asks for a past that it cannot have; return what must be readable for it."""
        self.pipeline.make_sound()
        return self.pipeline.admission.try_out(new, snapshot.definitions, self.pipeline.layout)

    def ask(self, snapshot: Snapshot, chosen: Mapping[int, int | None], *, accept: bool) -> BackfillTicket:
        """Ask for windows of the past, definition → since when, durably; they are answered in time."""
        pipeline, layout = self.pipeline, self.pipeline.plan(snapshot)
        seen = pipeline.progress.clock.watermark_us is not None
        asking = pipeline.admission.going_back(chosen, layout) if seen else {}
        if asking:
            with pipeline.changing():
                self.backfills.ask(asking, layout, entering=False, accept=accept)
                pipeline.committer.commit(Step("change", (), pipeline.clock()), layout)
        return self.tickets.give(asking)

    def begin(self, snapshot: Snapshot) -> bool:
        """Begin to read the past that is asked for; False: windows of a backfill before have to be answered first."""
        return self.backfills.begin(self.pipeline.plan(snapshot), snapshot.tables, self._cut())

    def catch_up(self, snapshot: Snapshot) -> int | None:
        """List what came while the past was read; return how much that is, or None if all has to be read again."""
        return self.backfills.catch_up(self.pipeline.plan(snapshot), snapshot.tables, self._cut())

    def take(self, snapshot: Snapshot) -> None:
        """Take over a past that is read up to here; its windows are answered when nothing else is to be."""
        pipeline, layout = self.pipeline, self.pipeline.plan(snapshot)
        if self.backfills.catch_up(layout, snapshot.tables, self._cut()) != 0:
            return  # the plan has just become another
        if any(map(self._says_changes, layout.plan.definitions)):
            pipeline.drain()  # such a query says its windows in order
        with pipeline.changing():
            step, past = self.backfills.take(layout, Step("backfill", (), pipeline.clock()))
            pipeline.committer.commit(step, layout)
            self.tickets.note([*past, *step.due])
            pipeline.answer_later(step.due, layout)
        self.look()

    def give_up(self, snapshot: Snapshot, error: PenstockError) -> None:
        """Ask for the past no more: it cannot be had."""
        pipeline, layout = self.pipeline, self.pipeline.plan(snapshot)
        with pipeline.changing():
            self.tickets.fail(self.backfills.give_up(error, layout), error)
            pipeline.committer.commit(Step("change", (), pipeline.clock()), layout)

    def answer(self) -> None:
        """Answer the next windows of backfills."""
        pipeline = self.pipeline
        with pipeline.memory, pipeline.changing():
            assert pipeline.layout is not None
            pipeline.committer.answer_past(pipeline.layout)
        if not pipeline.committer.past:
            about = {"event": "backfill ended", "stream": pipeline.stream.name}
            LOG.info("all windows of the past are answered", extra=about)
        self.look()

    def look(self) -> None:
        """Tell those who wait for a backfill that it has ended."""
        self.tickets.look(self.pipeline.progress.windows)

    def _says_changes(self, definition: Definition) -> bool:
        """Tell whether a query whose past is read says its windows in order."""
        reading = self.backfills.reading
        return reading is not None and definition.id in reading.asking and says_changes(definition.query)

    def _cut(self) -> Cut:
        """Return where the stream stands, between two batches."""
        return Cut(self.pipeline.progress.clock.source, self.pipeline.progress.clock.number)
