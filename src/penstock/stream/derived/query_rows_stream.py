"""Feeds the rows that a continuous query takes to a stream as batches, each once across restarts.

A batch has the number of the commit that stored its rows, and they are judged by the watermark that the commit's were
judged by: what was late there is late here. Rows that have gone through operators come with a commit of their own each;
the watermark waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.evaluate.typed import EACH_ROW
from penstock.model.derived import TIME
from penstock.spark.sources.rows import frame_of
from penstock.store.taken_plan import TakenCommit
from penstock.stream.batch_job import BEFORE_ALL_TIME
from penstock.stream.continuous.row_answers import answers_of_query
from penstock.stream.derived.derived_stream import DerivedStream
from penstock.stream.query_windows import NEVER
from penstock.stream.snapshot import Snapshot


class RowStream(DerivedStream):
    """A stream made of the rows of a continuous query: their times are its own, and the watermark is its leader's."""

    def begin(self) -> None:
        """Go on where the last commit stood; the watermark was perhaps not written any more."""
        self.followed = self.pipeline.progress.clock.batch - 1

    def take(self) -> None:
        """Take the rows of new commits, then the watermark, which does not pass rows that wait for operators."""
        feeding, definition = self.leader.pipeline, self.catalog.query(self.stream.name)
        snapshot, rows = self.snapshot(), feeding.continuous.rows
        waits_us = feeding.continuous.operators.held_back(definition.id)
        new = rows.commits(max(self.followed, self.pipeline.progress.clock.batch))
        read = ((commit, list(answers_of_query(rows, definition, commit))) for commit in new)
        found = [(commit, tables) for commit, tables in read if tables]
        for (commit, tables), judged_us in zip(found, _judged([c for c, _ in found], waits_us), strict=True):
            self._advance(snapshot, judged_us)
            frame = frame_of(self.session(), self._columns_of(pa.concat_tables(tables)), self.stream.columns)
            self.pipeline.process(frame, commit.number, snapshot)
        watermark = feeding.progress.clock.watermark_us
        if watermark is not None:
            self._advance(snapshot, watermark if waits_us is None else min(watermark, waits_us))
        self.was_held_back = waits_us is not None

    def _advance(self, snapshot: Snapshot, watermark_us: int) -> None:
        """Let the watermark go on, if rows were judged by any."""
        if watermark_us > BEFORE_ALL_TIME:
            self.pipeline.advance(snapshot, watermark_us)

    def _columns_of(self, rows: pa.Table) -> pa.Table:
        """Write rows as this stream has them."""
        times = rows[EACH_ROW[0].name]
        named = {name: rows[name] for name in rows.column_names[len(EACH_ROW) :]}
        return pa.table({**named, TIME: named.get(TIME, times)})


def _judged(commits: Sequence[TakenCommit], waits_us: int | None) -> list[int]:
    """Say by which watermark the rows of each commit are judged: their own, or an earlier one that is yet to come.

    Rows that operators let through come later than they were judged. Those of the past are judged by what is known.
    """
    found, least = list[int](), NEVER if waits_us is None else waits_us
    for commit in reversed(commits):
        own = BEFORE_ALL_TIME if commit.judged_us is None else commit.judged_us
        least = least if commit.past else min(least, own)
        found.append(min(least, own))
    return found[::-1]
