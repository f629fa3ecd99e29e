"""Lets fresh queries go on at the periods that the technique of the moment chooses, between two batches.

A query that changes its period hands over as an altered one does: a new definition of the same text answers the windows
from an end on, the old one those before. That end is one of the new period, and its window begins when nothing was seen
yet; so its slices have the edges that it needs. The last end before it is one of the old period, so no gap is longer
than the slide. The change is in the catalog before a batch is cut by it (decision 0051).
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.catalog import Catalog
from penstock.catalog.catalog import PeriodChange
from penstock.evaluate.typed import Definition
from penstock.share.fresh_periods import may_run_sooner, period_groups
from penstock.stream.handover import begins_after
from penstock.stream.overload.stages import PERIODS
from penstock.stream.pipeline import Pipeline


class PeriodChanges:
    """Compares the periods of a stream's queries with those that are wanted."""

    def __init__(self, stream: str, catalog: Catalog, pipeline: Pipeline) -> None:
        """Look at nothing yet."""
        self.stream, self.catalog, self.pipeline = stream, catalog, pipeline
        self._seen: tuple[int, str] | None = None  # the catalog's version and the technique that all is as wanted by
        self._known: tuple[tuple[int, str] | None, dict[int, int]] = None, {}  # what was wanted by such a pair

    def look(self) -> None:
        """Record the changes of periods that are wanted now; a stream that has ended changes nothing."""
        seen = self.catalog.stream_version(self.stream), self._named()
        if seen == self._seen or self.pipeline.half_done or self.pipeline.progress.clock.ended:
            return
        if self._known[0] != seen:
            self._known = seen, self._wanted()
        changes, waits = list[PeriodChange](), False
        changing = {definition.first for definition in self.catalog.leaving(self.stream)}
        for definition in self._there():
            period = self._known[1].get(definition.id, definition.asked.slide)
            if period == definition.query.window.slide or self._is_paused(definition):
                continue
            if definition.first in changing:  # once it is done, the catalog changes, and all is looked at again
                continue
            if self._may_change(definition):
                changes.append(PeriodChange(definition.name, period, self._from(definition, period)))
            else:
                waits = True
        if changes:
            self.catalog.retime(changes)
        self._seen = None if waits else (self.catalog.stream_version(self.stream), self._named())

    def _named(self) -> str:
        """Name what chooses periods: while memory runs short, each query keeps its slide."""
        settings = self.pipeline.given.settings
        return "" if settings.cap.is_active(PERIODS) else settings.synchronize.current().name

    def _there(self) -> Iterator[Definition]:
        """List the queries that may run more often than they ask, as they are now."""
        for definition in self.catalog.definitions(self.stream):
            stays = definition.handover is not None or self.catalog.makes_stream(definition.name)
            if not stays and may_run_sooner(definition):
                yield definition

    def _wanted(self) -> dict[int, int]:
        """Choose the period of each query; what the executors keep shares jobs, and keeps its slides."""
        settings = self.pipeline.given.settings
        choose = settings.synchronize.current().periods
        if choose is None or settings.cap.is_active(PERIODS):
            return {}
        here = [one for one in self._there() if not self.pipeline.groupings.has_spread(one)]
        scans, most = settings.kernel == "scan", settings.windows_at_a_time
        groups = period_groups(here, choose, scans=scans, most_windows=most)
        return {one.id: group.period_of(one) for group in groups for one in group.definitions}

    def _is_paused(self, definition: Definition) -> bool:
        """Tell whether a query answers nothing now; resuming it is a change, after which all is looked at again."""
        return definition.id in self.pipeline.progress.windows.paused or self.catalog.user_paused(definition.name)

    def _may_change(self, definition: Definition) -> bool:
        """Tell whether it is known from when on a query answers; one whose past is read or answered has to wait."""
        progress, number = self.pipeline.progress, definition.id
        if progress.clock.seen_until_us is None:
            return True
        return number in progress.windows.starts and number not in {*progress.windows.asked, *progress.windows.past}

    def _from(self, definition: Definition, period: int) -> int | None:
        """Return from when on windows at another period begin; None: from the first row on."""
        progress = self.pipeline.progress
        if progress.clock.seen_until_us is None:
            return None
        start, first = progress.windows.starts[definition.id], begins_after(progress, definition)
        assert first is not None
        first = first if start is None else max(start, first)
        window = definition.asked.every(period)
        return window.end_at_or_after(first + window.length) - window.length
