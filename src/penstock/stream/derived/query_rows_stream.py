"""Feeds the rows that a continuous query takes to a stream as batches, each once across restarts.

A batch has the number of the commit that stored its rows, and they are judged by the watermark that the commit's were
judged by: what was late there is late here.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.evaluate.typed import EACH_ROW
from penstock.model.derived import TIME
from penstock.spark.sources.rows import frame_of
from penstock.stream.continuous.row_answers import answers_of_query
from penstock.stream.derived.derived_stream import DerivedStream


class RowStream(DerivedStream):
    """A stream made of the rows of a continuous query: their times are its own, and the watermark is its leader's."""

    def begin(self) -> None:
        """Go on where the last commit stood; the watermark was perhaps not written any more."""
        self.followed = self.pipeline.progress.clock.batch - 1

    def take(self) -> None:
        """Take the rows of new commits, then the watermark."""
        feeding, definition = self.leader.pipeline, self.catalog.query(self.stream.name)
        snapshot, rows = self.snapshot(), feeding.continuous.rows
        for commit in rows.commits(max(self.followed, self.pipeline.progress.clock.batch)):
            found = list(answers_of_query(rows, definition, commit))
            if commit.judged_us is not None:
                self.pipeline.advance(snapshot, commit.judged_us)
            if found:
                whole = self._columns_of(pa.concat_tables(found))
                frame = frame_of(self.session(), whole, self.stream.columns)
                self.pipeline.process(frame, commit.number, snapshot)
        watermark = feeding.progress.clock.watermark_us
        if watermark is not None:
            self.pipeline.advance(snapshot, watermark)

    def _columns_of(self, rows: pa.Table) -> pa.Table:
        """Write rows as this stream has them."""
        times = rows[EACH_ROW[0].name]
        named = {name: rows[name] for name in rows.column_names[len(EACH_ROW) :]}
        return pa.table({**named, TIME: named.get(TIME, times)})
