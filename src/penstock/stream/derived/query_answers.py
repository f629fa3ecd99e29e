"""Feeds a query's committed answers to a stream as batches, each once across restarts.

A batch has the number of the commit whose answers it holds. Its rows and its number are committed together, so what
was taken is known exactly, and what was not is in the answer log of the query's stream.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.typed import Definition
from penstock.model.derived import TIME
from penstock.model.window import SessionWindow
from penstock.spark.sources.rows import frame_of
from penstock.store.answers import DEFINITION
from penstock.stream.derived.derived_stream import DerivedStream
from penstock.stream.progress import Progress


class QueryStream(DerivedStream):
    """A stream made of a query's answers: ts = window_end - 1 us, and its watermark is the last final window_end."""

    def begin(self) -> None:
        """Go on where the last commit stood; up to which time there is no more was perhaps not written any more."""
        self.followed = self.pipeline.progress.clock.batch - 1

    def take(self) -> None:
        """Take new answers, then the time up to which there are no more."""
        feeding, definition = self.leader.pipeline, self.catalog.query(self.stream.name)
        snapshot, session = self.snapshot(), None
        for number, tables in feeding.answers.batches(max(self.followed, self.pipeline.progress.clock.batch)):
            rows = rows_of(tables, definition, [c.name for c in self.stream.columns])
            if rows is not None:
                session = session or self.session()
                self.pipeline.process(frame_of(session, rows, self.stream.columns), number, snapshot)
        final_us = last_final_end(feeding.progress, definition)
        if final_us is not None:
            self.pipeline.advance(snapshot, final_us)


def rows_of(tables: Iterable[pa.Table], definition: Definition, columns: list[str]) -> pa.Table | None:
    """Choose a query's answers among a commit's, as rows of a stream; None: there are none."""
    brought = columns[:-1]  # all but the event time
    fitting = [t for t in tables if set(brought) <= set(t.column_names)]
    mine = [t.filter(pc.equal(t[DEFINITION], definition.id)) for t in fitting]
    mine = [t.select(brought).cast(definition.typed.schema) for t in mine if t.num_rows]
    if not mine:
        return None
    rows = pa.concat_tables(mine).combine_chunks()
    ends = rows["window_end"].cast(pa.int64()).combine_chunks()
    times = pa.array(np.asarray(ends.to_numpy(), np.int64) - 1).view(rows["window_end"].type)
    return rows.append_column(TIME, times)


def last_final_end(progress: Progress, definition: Definition) -> int | None:
    """Return the end of a query's last window that is final; None: there is none yet."""
    window, following, watermark = (
        definition.query.window,
        progress.windows.next_ends.get(definition.id),
        progress.clock.watermark_us,
    )
    if isinstance(window, SessionWindow):  # all that are to come end at the watermark or later
        if watermark is None or progress.clock.last_us is None:
            return None
        return progress.clock.last_us + window.gap_us if progress.clock.ended else watermark - 1
    if following is None or watermark is None or following == progress.windows.first_ends.get(definition.id):
        return None
    last = following - window.slide
    return last if progress.clock.ended else min(last, window.end_after(watermark) - window.slide)
