"""Where a stream stands in, the windows to answer now out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.evaluate.due import Int64Array, due_ends, last_held_end
from penstock.evaluate.typed import Definition
from penstock.model.derived import source_of
from penstock.model.window import RowsWindow
from penstock.share.layout import Layout
from penstock.share.plan import Tree
from penstock.store.answering import Due
from penstock.store.commits import Commit
from penstock.store.synopsis import Synopsis
from penstock.stream.progress import Progress

Until = Callable[[Tree, Definition], int]
LOG = logging.getLogger("penstock")


@dataclass(slots=True)
class Agenda:
    """Lists due windows and moves each query's next one behind them."""

    progress: Progress
    synopsis: Synopsis
    reports: list[str] = field(default_factory=list)

    def report(self, definition: Definition, text: str, event: str = "report") -> None:
        """Tell users of something about a query, in the log and at the end of a run."""
        self.tell(
            f'query "{definition.name}"{text}', source_of(definition.query.stream), event=event, query=definition.name
        )

    def tell(self, text: str, stream: str, **about: str) -> None:
        """Tell users of something about a stream."""
        self.reports.append(text)
        LOG.warning(text, extra={"event": "report", "stream": stream, **about})

    def due(self, layout: Layout, watermark_us: int) -> list[Due]:
        """List the windows that a watermark makes final."""
        return self._due(layout, lambda tree, definition: watermark_us)

    def rest(self, layout: Layout) -> list[Due]:
        """List the windows left when the stream ends: final ones, and those that hold a row."""
        return [] if self.progress.watermark_us is None else self._due(layout, self._last_end)

    def recorded(self, layout: Layout, commit: Commit) -> list[Due]:
        """List the windows that a commit found due."""
        found = []
        for tree in layout.plan.trees:
            for definition in tree.definitions:
                first, _, *until = commit.due.get(str(definition.id), (0, 0))
                last = until[0] if until else (commit.next_ends.get(str(definition.id)) or 0) - 1
                if str(definition.id) in commit.due:
                    found += self._windows(tree, definition, first, last)[0]
        return found

    def between(self, layout: Layout, ends: Mapping[int, tuple[int, int]]) -> list[Due]:
        """List the windows of some queries, definition → first and last end, that others' progress is not moved by."""
        found = []
        for tree in layout.plan.trees:
            for definition in tree.definitions:
                if definition.id in ends:
                    found += self._windows(tree, definition, *ends[definition.id])[0]
        return found

    def open_windows(self, layout: Layout) -> int:
        """Count the windows that hold rows and are not final."""
        watermark, number = self.progress.watermark_us, 0
        if watermark is None or self.progress.ended:
            return 0
        for tree in layout.plan.trees:
            for definition in tree.definitions:
                if definition.id in self.progress.paused:
                    continue
                last = self._last_end(tree, definition)
                first = self.progress.first_end(definition, last)
                if first is not None and last >= first:
                    number += (last - first) // definition.query.window.slide_us + 1
        return number

    def _due(self, layout: Layout, until: Until) -> list[Due]:
        """List each query's windows up to a time of its own."""
        found = []
        for tree in layout.plan.trees:
            for definition in tree.definitions:
                target = until(tree, definition)
                first = self.progress.first_end(definition, target)
                if first is None:
                    continue
                if first <= target:  # of most queries, no window ends with a batch
                    windows, following = self._windows(tree, definition, first, target)
                    self.progress.next_ends[definition.id] = following
                    found += windows
                self.progress.first_ends.setdefault(definition.id, first)
        return found

    def _windows(self, tree: Tree, definition: Definition, first_us: int, until_us: int) -> tuple[list[Due], int]:
        """List one query's windows, without those of a paused one from its failure on; also the end after them."""
        present = self.synopsis.presence(tree.name)
        query = definition.query
        due = due_ends(query.window, first_us, until_us, present, empty_too=not query.grouped)
        if due.skipped:
            self.report(definition, f": the stream was silent, {due.skipped:,} empty windows skipped")
        paused = self.progress.paused.get(definition.id)
        ends = due.ends if paused is None else due.ends[due.ends <= paused.until_us]
        found = [Due(definition, tree.lane_key(definition), ends, until_us, self._starts(definition, ends))]
        found = found if len(ends) else []
        return found, due.next_end_us

    def _starts(self, definition: Definition, ends: Int64Array) -> Int64Array | None:
        """Return the first rows of windows of rows, which are the query's own; None for windows of time."""
        window = definition.query.window
        if not isinstance(window, RowsWindow):
            return None
        return np.maximum(ends - window.range_us, self.progress.starts.get(definition.id) or 0)

    def _last_end(self, tree: Tree, definition: Definition) -> int:
        """Return the later of the watermark and the end of the last window that holds a row."""
        watermark = self.progress.watermark_us
        assert watermark is not None
        held = last_held_end(definition.query.window, self.synopsis.presence(tree.name))
        return watermark if held is None else max(held, watermark)
