"""Lists the windows of rows that are numbered apart by keys (PARTITION BY): they end with rows, not with time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.evaluate.windows.due import EndRuns
from penstock.kernel.partitions import PartitionedSynopsis, Partitions
from penstock.kernel.pending import Pending
from penstock.share.layout import Layout
from penstock.store.commits import Commit
from penstock.stream.due_windows import DueWindows, Floors


class PartitionDueWindows(DueWindows):
    """Lists the windows that a batch made final, part by part."""

    def due(self, layout: Layout, watermark_us: int) -> list[Pending]:
        """List nothing: windows of parts end with rows, never by the watermark alone."""
        return []

    def after_batch(self, layout: Layout, watermark_us: int | None) -> list[Pending]:
        """List the windows that a batch makes final."""
        return self.grown(layout)

    def needed_since(self, layout: Layout) -> Floors:
        """Return nothing: times do not tell what parts need."""
        return None

    def releasing(self, layout: Layout, floors: Floors) -> Iterator[None]:
        """Let go of slices that no window needs, part by part."""
        self._partitioned.let_go(layout)
        yield

    def needed(self, partials: pa.Table, layout: Layout) -> pa.Table:
        """Keep what windows to come need of partials that are put together."""
        return partials if self.parts is None else self.parts.needed(partials, layout.plan.definitions)

    def grown(self, layout: Layout) -> list[Pending]:
        """List the windows that the last batch made final."""
        parts, found = self.parts, list[Pending]()
        if parts is None:
            return found
        for tree in layout.plan.trees:
            for definition in tree.definitions:
                starts, ends = parts.due(definition)
                if len(ends) and definition.id not in self.progress.windows.paused:
                    lane, listed = tree.lane_key(definition), EndRuns.listed(ends)
                    found.append(Pending(definition, lane, listed, starts=starts, final_us=self.clock()))
        return found

    def recorded(self, layout: Layout, commit: Commit, *, past: bool = False) -> list[Pending]:
        """List the windows that the last commit found due; none are of the past."""
        return [] if past else [one for one in self.grown(layout) if str(one.definition.id) in commit.due]

    @property
    def parts(self) -> Partitions | None:
        """Return the parts; None before the first query."""
        return self._partitioned.parts

    @property
    def _partitioned(self) -> PartitionedSynopsis:
        """Return the synopsis, which numbers parts."""
        assert isinstance(self.synopsis, PartitionedSynopsis)
        return self.synopsis
