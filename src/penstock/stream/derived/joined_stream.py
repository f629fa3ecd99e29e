"""Runs the pairs of a window join as a stream: each step of the join is a batch, its watermark the lesser of both.

A batch's number tells the commits of both streams that it has taken, and is committed with it: after a crash exactly
what is behind them is taken again.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.errors import SourceError
from penstock.kernel.pair_outputs import PairOutputs
from penstock.model.derived import join_of
from penstock.model.schema import Stream
from penstock.model.stream_join import RetainedRows, paired, place_of_pair
from penstock.spark.job.held_rows import HeldRows
from penstock.spark.sources.pair_frame import pair_frame
from penstock.stream.answer_targets import AnswerTargets
from penstock.stream.derived.derived_stream import DerivedStream
from penstock.stream.derived.shared_join import JoinedPairs, Place, SharedJoin
from penstock.stream.pipeline import Pipeline
from penstock.stream.query_windows import NEVER
from penstock.stream.runner import StreamRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _order(place: Place) -> int:
    """Order places as their batches are numbered."""
    return paired(*place)


class JoinedStream(DerivedStream):
    """A window join of two streams at work."""

    def __init__(
        self,
        stream: Stream,
        catalog: Catalog,
        pipeline: Pipeline,
        targets: AnswerTargets,
        shared: SharedJoin,
    ) -> None:
        """Bring back what was committed; both streams feed it from their next steps on."""
        join = join_of(stream)
        assert join is not None
        self.join, self.shared = join, shared
        self.leaders = list(dict.fromkeys(side.runner for side in shared.sides))
        self.position: Place = join.begins
        self._computing: tuple[pa.Schema, PairOutputs | None] | None = None
        super().__init__(stream, catalog, pipeline, targets, self.leaders[0])
        for leader in self.leaders[1:]:
            leader.targets.followers.append(self)
        shared.enter(self)

    @property
    def settled_us(self) -> int | None:
        """Return the time before which no pair is to come; None: there was none yet."""
        return self.pipeline.progress.clock.watermark_us

    def begin(self) -> None:
        """Go on where the last commit stood; it needs no answers of the streams that it joins."""
        batch, self.followed = self.pipeline.progress.clock.batch, NEVER
        self.position = self.join.begins if batch < 0 else place_of_pair(batch)

    def follow(self) -> None:
        """Let the join take a step, and do what is due."""
        self.shared.follow()
        with self._busy:
            self.tick()

    def take(self) -> None:
        """Take the commits that were not taken yet."""
        self.shared.follow()

    def stand_by_commit(self) -> None:
        """Go on where the last commit stood if a step failed in the middle, perhaps right after it was committed."""
        if self.pipeline.half_done:
            with self._busy, self.pipeline.step():
                self.pipeline.make_sound()
                if self.pipeline.progress.clock.batch >= 0:
                    self.position = max(self.position, place_of_pair(self.pipeline.progress.clock.batch), key=_order)

    def take_pairs(self, pairs: JoinedPairs, upto: Place, watermark_us: int | None) -> None:
        """Take the pairs of a step that are its own, then the time that no later pair is before."""
        with self._busy:
            snapshot = self.snapshot()
            frame = self._frame(pairs.chosen(self.join)) if pairs.rows.num_rows else None
            if frame is not None:
                told = self.pipeline.progress.clock.invalid.rows
                self.pipeline.process(frame, paired(*upto), snapshot, reached_us=watermark_us)
                if self.pipeline.progress.clock.invalid.rows > told:
                    self._tell_of_failure(self.pipeline.progress.clock.invalid.rows - told)
            self.position = upto
            if watermark_us is not None:
                self.pipeline.advance(snapshot, watermark_us)

    def _frame(self, pairs: pa.Table) -> DataFrame | None:
        """Compute what the condition takes of pairs and their outputs, here where that is possible; None: no row."""
        columns = self.stream.columns
        if not pairs.num_rows:
            return None
        if self._computing is None or self._computing[0] != pairs.schema:
            types = {field.name: field.type for field in pairs.schema}
            self._computing = pairs.schema, PairOutputs.of(self.join, columns, types)
        here = self._computing[1]
        rows = None if here is None else here.rows(pairs)
        if rows is None:
            return pair_frame(self.session(), pairs, self.join, self._sides(), columns)
        return HeldRows(self._settled_session, rows, columns) if rows.num_rows else None

    @cached_property
    def _settled_session(self) -> SparkSession:
        """Return the session for rows that no function of the users' own is asked of, one for all joins together."""
        return self.shared.settled_session(self.session)

    def hold_back(self, runner: StreamRunner, stopping: threading.Event) -> None:
        """Let a stream wait that is too far ahead of the other one."""
        self.shared.hold_back(runner, stopping)

    def leave(self) -> None:
        """Be fed no more."""
        for leader in self.leaders[1:]:
            leader.targets.followers.remove(self)
        self.shared.leave(self)
        super().leave()

    @property
    def retained(self) -> tuple[RetainedRows, ...]:
        """Tell how many rows of both streams wait."""
        return self.shared.retained()

    def rows_in_memory(self) -> tuple[tuple[int, int], ...]:
        """Tell how many bytes of both streams' rows wait in memory, and how many joins share them."""
        return tuple((side.index.bytes, max(1, len(self.shared.members))) for side in self.shared.sides)

    @property
    def running(self) -> bool:
        """Tell whether both streams run in the background."""
        return all(leader.running for leader in self.leaders)

    def _sides(self) -> tuple[Stream, Stream]:
        """Return both streams, the left one first."""
        left, right = (side.runner.stream for side in self.shared.sides)
        return left, right

    def _tell_of_failure(self, pairs: int) -> None:
        """Tell users once a step that the condition or an output failed."""
        counted = f"{pairs:,} pair" + "s" * (pairs > 1)
        text = f'stream "{self.stream.name}": its condition or an output failed on {counted}, which count as invalid'
        self.pipeline.due_windows.tell(text, self.stream.name)

    def process(self, batch: DataFrame, batch_id: int, source: str = "") -> None:
        """Refuse rows that come another way."""
        self._no_source()

    def _no_source(self) -> NoReturn:
        """Raise for a wish to read rows where none can be read."""
        names = " and ".join(f'"{leader.stream.name}"' for leader in self.leaders)
        what = f'the rows of stream "{self.stream.name}" come from the streams {names} alone'
        raise SourceError(what, hint="Give rows to those.")
