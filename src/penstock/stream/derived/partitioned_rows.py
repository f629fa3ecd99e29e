"""Numbers the rows of each key on their own, for windows of rows with PARTITION BY."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.evaluate.windows.due import EndRuns
from penstock.kernel.arrived import Arrived
from penstock.kernel.partitions import PartitionedSynopsis, Partitions
from penstock.kernel.pending import Pending
from penstock.model.window import RowsWindow
from penstock.share.layout import Layout
from penstock.spark.kept_rows.row_numbers import count_parts, number_parts
from penstock.store.commits import Commit, DiskCommitLog
from penstock.stream.derived.row_times import dated
from penstock.stream.derived.row_windows import RowWindowStream
from penstock.stream.due_windows import DueWindows
from penstock.stream.pipeline import Pipeline


class PartitionDueWindows(DueWindows):
    """Lists the windows that a batch made final, part by part."""

    def due(self, layout: Layout, watermark_us: int) -> list[Pending]:
        """List nothing: windows of parts end with rows, never by the watermark alone."""
        return []

    def grown(self, layout: Layout) -> list[Pending]:
        """List the windows that the last batch made final."""
        parts, found = self.parts, list[Pending]()
        if parts is None:
            return found
        for tree in layout.plan.trees:
            for definition in tree.definitions:
                starts, ends = parts.due(definition)
                if len(ends) and definition.id not in self.progress.paused:
                    found.append(Pending(definition, tree.lane_key(definition), EndRuns.listed(ends), starts=starts))
        return found

    def recorded(self, layout: Layout, commit: Commit) -> list[Pending]:
        """List the windows that the last commit found due."""
        return [one for one in self.grown(layout) if str(one.definition.id) in commit.due]

    @property
    def parts(self) -> Partitions | None:
        """Return the parts; None before the first query."""
        assert isinstance(self.synopsis, PartitionedSynopsis)
        return self.synopsis.parts


class PartitionPipeline(Pipeline):
    """Processes batches of rows that are numbered apart."""

    due_windows_of = PartitionDueWindows
    synopsis_of = PartitionedSynopsis

    def _begin(self) -> None:
        """Start with nothing seen; what no window needs is let go of part by part."""
        super()._begin()
        assert isinstance(self.synopsis, PartitionedSynopsis)
        self.committer.let_go = self.synopsis.let_go
        if isinstance(self.commits, DiskCommitLog):
            self.commits.needed = self._needed

    def _advance(self, arrived: Arrived, repeated: int, layout: Layout) -> list[Pending]:
        """Count a batch and list the windows that became final."""
        super()._advance(arrived, repeated, layout)
        assert isinstance(self.due_windows, PartitionDueWindows)
        return self.due_windows.grown(layout)

    def _needed(self, partials: pa.Table) -> pa.Table:
        """Keep what windows to come need of partials that are put together."""
        assert isinstance(self.due_windows, PartitionDueWindows)
        parts, layout = self.due_windows.parts, self.layout
        return partials if parts is None or layout is None else parts.needed(partials, layout.plan.definitions)


class PartitionedRowStream(RowWindowStream):
    """The rows of a stream, numbered apart by keys, and the queries over them that began together."""

    def attach(self, pipeline: Pipeline) -> None:
        """Let answers have times in place of row numbers."""
        pipeline.shown = lambda tables: self._shown(pipeline, tables)

    def _shown(self, pipeline: Pipeline, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """Write answers as users see them."""
        parts = _parts_of(pipeline)
        return dated(tables, {}, 1 if parts is None else parts.stride)

    def _number_until(self, stop_us: int) -> None:
        """Number the rows up to a time, each key's on its own, and let it be a batch."""
        assert self._until_us is not None
        waiting, source = self.leader.pipeline.intake.waiting, self.leader.stream
        self.pipeline.plan(self.snapshot())  # tells the parts
        found, parts = waiting.rows(self.session(), self._until_us, stop_us), _parts_of(self.pipeline)
        if found is not None and parts is not None:
            window = self.catalog.definitions(self.stream.name)[0].query.window
            assert isinstance(window, RowsWindow)
            keys = count_parts(found[0], window.partition)
            if keys.num_rows:
                firsts = parts.next_numbers([keys[name] for name in window.partition])
                numbered = number_parts(found[0], source.columns, window.partition, keys, firsts)
                self.pipeline.process(numbered, self.batch_of(stop_us), self.snapshot())
        self._until_us = stop_us


def _parts_of(pipeline: Pipeline) -> Partitions | None:
    """Return a pipeline's parts."""
    assert isinstance(pipeline.synopsis, PartitionedSynopsis)
    return pipeline.synopsis.parts
