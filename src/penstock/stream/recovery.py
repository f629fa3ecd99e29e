"""Rebuilds the lanes from the commits at a restart, and pauses the queries of lanes that break.

Lanes can be rebuilt from nothing else, so whatever breaks one of them must not keep the others from coming back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from penstock.evaluate.typed import Definition
from penstock.kernel.arrived import Arrived
from penstock.kernel.defects import Defect
from penstock.kernel.described import check_described
from penstock.model.window import RowsWindow
from penstock.share.layout import Layout
from penstock.store.commits import Commit
from penstock.stream.defect_isolation import Place, pause_users, users_of
from penstock.stream.due_windows import DueWindows

LanesOf = Callable[[Collection[int], Layout], Layout]


class Recovery:
    """Reads commits back, oldest first, and knows of lanes that broke since when each of them is whole."""

    def __init__(self, due_windows: DueWindows, lanes_of: LanesOf, stream: str) -> None:
        """Read back into an agenda's synopsis and progress; ``lanes_of`` lays out the lanes of some queries alone."""
        self.due_windows, self.lanes_of, self.stream = due_windows, lanes_of, stream
        self.synopsis, self.progress = due_windows.synopsis, due_windows.progress
        self._broken: dict[Place, tuple[int | None, Defect]] = {}

    def take(self, commit: Commit, partials: pa.Table | None, layout: Layout) -> Arrived | None:
        """Bring back what a commit brought, and stand where it stood."""
        edges, arrived = {int(tree): times for tree, times in commit.edges.items()}, None
        if partials is not None and commit.kind == "backfill":
            rebuilt = self.lanes_of(commit.backfilled, layout)
            whole = {key for tree in rebuilt.plan.trees for key in tree.lanes}
            self._broken = {place: known for place, known in self._broken.items() if place[0] not in whole}
            arrived = self.synopsis.rebuild(rebuilt, partials, edges)
        elif partials is not None:
            check_described(partials, layout, self.stream)
            arrived = self.synopsis.ingest(layout, partials, edges)
        self.progress.restore(commit)
        found, self.synopsis.defects = self.synopsis.defects, {}
        self._broken |= {place: (self.progress.clock.seen_until_us, defect) for place, defect in found.items()}
        return arrived

    def charge(self, layout: Layout, last: Commit, *, answered: bool) -> None:
        """Pause the queries that would be answered from what is not whole; others had begun anew before."""
        waiting = frozenset[str]() if answered else frozenset(last.due)
        for place, (since_us, defect) in self._broken.items():
            if since_us is not None:
                lost = [d for d in users_of(layout, place) if not self._goes_on(d, since_us, waiting)]
                pause_users(self.due_windows, layout, lost, defect, since_us)

    def _goes_on(self, definition: Definition, since_us: int, waiting: Collection[str]) -> bool:
        """Tell whether all windows that a query will answer begin where its lane is whole."""
        progress, window = self.progress, definition.query.window
        start, following = progress.windows.starts.get(definition.id), progress.windows.next_ends.get(definition.id)
        by_rows = isinstance(window, RowsWindow)
        if not by_rows and start is not None and start >= since_us:
            return True
        if str(definition.id) in waiting or definition.typed.revise_us or following is None:
            return False
        if following - window.length < since_us:
            return False
        if not by_rows:
            progress.windows.starts[definition.id] = since_us
        return True
