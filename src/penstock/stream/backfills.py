"""Answers windows of the past while a stream runs: reads them aside, takes them over between two batches.

What is asked for is in every commit until it is taken over, so a restart begins to read again. The windows are answered
afterwards, a few at a time (``unanswered.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from penstock.errors import PenstockError
from penstock.evaluate.typed import Definition
from penstock.kernel.pending import Pending
from penstock.language.options import accepts_changed_files, says_changes
from penstock.model.schema import Table
from penstock.share.layout import Layout
from penstock.store.commits import AskedPast
from penstock.stream.admission import Admission
from penstock.stream.batch_job import BatchJob
from penstock.stream.past_reading import PastReading, Since
from penstock.stream.past_rows import Cut
from penstock.stream.progress import BackfillProgress
from penstock.stream.step import Step
from penstock.stream.unanswered import PastWindows

LOG: Final = logging.getLogger("penstock")


class Backfills:
    """The past that queries of one stream ask for."""

    def __init__(self, admission: Admission, computing: BatchJob, past: PastWindows, stream: str) -> None:
        """Begin with none; ``computing`` is not that of batches, which run meanwhile."""
        self.admission, self.computing, self.past, self.stream = admission, computing, past, stream
        self.windows = admission.progress.windows
        self.reading: PastReading | None = None

    def ask(self, asking: Mapping[int, Since], layout: Layout, *, entering: bool, accept: bool = False) -> None:
        """Note that queries are to answer windows since a time."""
        for definition in (d for d in layout.plan.definitions if d.id in asking):
            known, since = self.windows.asked.get(definition.id), asking[definition.id]
            if known is not None and (known.since_us is None or (since is not None and known.since_us <= since)):
                continue
            entered = entering or (known is not None and known.entering)
            accepted = accept or accepts_changed_files(definition.query)
            holds = entered and says_changes(definition.query)
            self.windows.asked[definition.id] = AskedPast(since, entered, accepted, holds)

    @property
    def is_wanted(self) -> bool:
        """Tell whether what is being read is still what is asked for."""
        asked, reading = self.windows.asked, self.reading
        return reading is not None and all(
            number in asked and asked[number].since_us == since for number, since in reading.asking.items()
        )

    def begin(self, layout: Layout, tables: Mapping[str, Table], cut: Cut) -> bool:
        """Begin to read what is asked for, up to a cut; False: it has to wait for windows of a backfill before it."""
        self.stop()
        ready = {n: one for n, one in self.windows.asked.items() if n not in self.windows.past}
        if not ready:
            return False
        accept = next(iter(ready.values())).accept
        asking = {number: one.since_us for number, one in ready.items() if one.accept == accept}
        self.reading = self.admission.reading(asking, layout, tables, cut, self.computing, accept=accept)
        self.reading.past.retained.hold()
        self._log("begins", "backfill begins", layout, asking)
        return True

    def stop(self) -> None:
        """Read no more."""
        if self.reading is not None:
            self.reading.past.retained.release()
            self.reading = None

    def catch_up(self, layout: Layout, tables: Mapping[str, Table], cut: Cut) -> int | None:
        """List what came since; return how many units are to be read, or None if all has to be read again."""
        reading = self.reading
        assert reading is not None
        self.admission.groupings.refuse_the_past(d for d in layout.plan.definitions if d.id in reading.asking)
        current = self.is_wanted and reading.is_for(self.admission.past_lanes(reading.asking, layout))
        if not current or not self._has_tables(reading, tables):
            self.stop()
            return None
        before = self.admission.progress.clock.seen_until_us
        assert before is not None
        return reading.follow(cut, before)

    def take(self, layout: Layout, step: Step) -> tuple[Step, list[Pending]]:
        """Take the past over: its windows that are due with the step, and those that are answered a few at a time."""
        reading = self.reading
        assert reading is not None
        step, past = self.admission.take_aside(reading.whole(), layout, step)
        self.past.enlist(past)
        self.stop()
        self._log("is read", "backfill read", layout, reading.asking)
        return step, past

    def give_up(self, error: PenstockError, layout: Layout) -> list[int]:
        """Ask for the past no more: it cannot be had. Queries that came with theirs are paused."""
        asked = self.windows.asked
        wanted = self.reading.asking if self.reading is not None else dict.fromkeys(asked)
        given_up = {number: asked.pop(number) for number in list(wanted) if number in asked}
        by_id = {d.id: d for d in layout.plan.definitions if d.id in given_up}
        self.admission.pause_without_past((d for n, d in by_id.items() if given_up[n].entering), error)
        for number, definition in by_id.items():
            if not given_up[number].entering:
                text = f" is not backfilled: {error.what}"
                self.admission.due_windows.report(definition, text, "backfill failed")
        self.stop()
        return list(given_up)

    def progress(self) -> list[BackfillProgress]:
        """Tell how far the backfill of every query is; any thread may ask."""
        reading, left = self.reading, self.past.left()
        found = []
        for number in list(self.windows.asked):
            mine = reading if reading is not None and number in reading.asking else None
            units = None if mine is None or mine.units is None else len(mine.units)
            found.append(BackfillProgress(number, 0 if mine is None else mine.done, units, 0, None))
        for number, windows in list(self.past.listed.items()):
            found.append(BackfillProgress(number, 1, 1, windows - left.get(number, 0), windows))
        return found

    def _has_tables(self, reading: PastReading, tables: Mapping[str, Table]) -> bool:
        """Tell whether the tables that rows are joined with are as they were when they were read."""
        joins = reading.layout.plan.joins
        return not joins or self.computing.tables.current(joins, tables)[1] == reading.parts[-1].computed.versions

    def _log(self, what: str, event: str, layout: Layout, asking: Collection[int]) -> None:
        """Write a line to the log."""
        names = _names(d for d in layout.plan.definitions if d.id in asking)
        LOG.info(f"the past of {names} {what}", extra={"event": event, "stream": self.stream})


def _names(definitions: Iterable[Definition]) -> str:
    """Name a few queries."""
    names = [f'"{definition.name}"' for definition in definitions]
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
