"""Rebuilds the lanes from the commits at a restart, and pauses the queries of lanes that break.

Lanes can be rebuilt from nothing else, so whatever breaks one of them must not keep the others from coming back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from penstock.evaluate.typed import Definition
from penstock.kernel.answering import DueSessions
from penstock.kernel.arrived import Arrived, rows_in
from penstock.kernel.defects import Defect
from penstock.kernel.described import check_described
from penstock.kernel.pending import Pending
from penstock.language.options import is_fresh
from penstock.model.window import RowsWindow
from penstock.share.layout import Layout
from penstock.store.answer_files import Span
from penstock.store.answers import AnswerLog
from penstock.store.commits import Commit, by_commit
from penstock.stream.corrections import NO_LATE_ROWS
from penstock.stream.defect_isolation import Place, pause_users, users_of
from penstock.stream.due_windows import DueWindows
from penstock.stream.sessions import StreamSessions
from penstock.stream.step_committer import StepCommitter

LanesOf = Callable[[Collection[int], Layout], Layout]


class Recovery:
    """Reads commits back, oldest first, and knows of lanes that broke since when each of them is whole."""

    def __init__(self, due_windows: DueWindows, sessions: StreamSessions, lanes_of: LanesOf, stream: str) -> None:
        """Read back into an agenda's synopsis and progress; ``lanes_of`` lays out the lanes of some queries alone."""
        self.due_windows, self.lanes_of, self.stream = due_windows, lanes_of, stream
        self.synopsis, self.progress = due_windows.synopsis, due_windows.progress
        self.sessions = sessions
        self._broken: dict[Place, tuple[int | None, Defect]] = {}
        self._made: list[Span] = []  # answers after the last commit

    def take(
        self, commit: Commit, partials: pa.Table | None, layout: Layout, standing: Callable[[int], None]
    ) -> Arrived | None:
        """Bring back what a commit brought, and stand where it stood.

        ``standing`` is told of how many rows a batch has partials as soon as it is known when it stood, before they are
        filed into lanes.
        """
        edges, arrived = {int(tree): times for tree, times in commit.edges.items()}, None
        if partials is not None and commit.kind == "backfill":
            rebuilt = self.lanes_of(commit.backfilled, layout)
            whole = {key for tree in rebuilt.plan.trees for key in tree.lanes}
            self._broken = {place: known for place, known in self._broken.items() if place[0] not in whole}
            arrived = self.synopsis.rebuild(rebuilt, partials, edges)
        elif partials is not None:
            check_described(partials, layout, self.stream)
        self.progress.restore(commit)
        if partials is not None:
            standing(rows_in(partials))
        if partials is not None and commit.kind != "backfill":
            for before_us, watermark_us, part in by_commit(commit, partials):
                arrived = self.synopsis.ingest(layout, part, edges)
                self.sessions.replay(layout, before_us, watermark_us)
        else:
            self.sessions.replay(layout, commit.before_us, commit.watermark_us)
        if commit.ended:
            self.sessions.replay_end(layout, flushed=commit.kind == "flush")
        found, self.synopsis.defects = self.synopsis.defects, {}
        self._broken |= {place: (self.progress.clock.seen_until_us, defect) for place, defect in found.items()}
        return arrived

    def charge(self, layout: Layout, last: Commit, answers: AnswerLog) -> None:
        """Pause the queries that would be answered from what is not whole; others had begun anew before."""
        self._made = answers.made_after(last.number)
        waiting = {one.definition.id for one in [*self._unanswered(layout, last), *self._of_the_past(layout, last)]}
        for place, (since_us, defect) in self._broken.items():
            if since_us is not None:
                lost = [d for d in users_of(layout, place) if not self._goes_on(d, since_us, waiting)]
                pause_users(self.due_windows, layout, lost, defect, since_us)

    def go_on(self, committer: StepCommitter, layout: Layout, last: Commit, arrived: Arrived | None) -> None:
        """Answer what was due at the last commit, and was not answered before the process ended."""
        committer.targets.catch_up()  # a step that failed may have passed a sink over
        committer.past.enlist(self._of_the_past(layout, last))
        revised = any(span.corrected or span.older for span in self._made)
        late = (arrived.touched, last.judged_us) if arrived is not None and last.kind == "batch" else NO_LATE_ROWS
        committer.answer_sessions(self._sessions_left(), layout)
        due, left = self._unanswered(layout, last), NO_LATE_ROWS if revised else late
        self._count_skipped(layout, last)
        if any(span.older and not span.complete for span in self._made):
            committer.find_failures(self.due_windows.recorded(layout, last), layout, late)
        elif due or left[0]:
            committer.answer(due, layout, left)
        else:
            committer.go_on(layout)

    def _unanswered(self, layout: Layout, last: Commit) -> list[Pending]:
        """List the windows that a commit found due, without those that are in the log."""
        if any(span.older for span in self._made):
            return []
        recorded, covered = self.due_windows.recorded(layout, last), self._covered()
        left = [one.after(covered[d]) if (d := one.definition.id) in covered else one for one in recorded]
        return [one for one in left if len(one.ends)]

    def _sessions_left(self) -> list[DueSessions]:
        """List the sessions that the last commit ended, but for those in the log: a query's are answered together."""
        covered = self._covered()
        return [one for one in self.sessions.due if one.definition.id not in covered]

    def _covered(self) -> dict[int, int]:
        """Tell up to which end each query was answered after the last commit."""
        covered = dict[int, int]()
        for span in self._made:
            covered |= {number: max(end, covered.get(number, end)) for number, end in span.covered.items()}
        return covered

    def _count_skipped(self, layout: Layout, last: Commit) -> None:
        """Count the windows that were superseded after the last commit: of those covered, a file answers the newest."""
        covered, skipped = self._covered(), self.progress.windows.skipped
        fresh = {d.id for d in layout.plan.definitions if d.id in covered and is_fresh(d.query)}
        for one in self.due_windows.recorded(layout, last) if fresh else ():
            if (number := one.definition.id) in fresh:
                skipped[number] = skipped.get(number, 0) + len(one.upto(covered[number]).ends)
        for number in fresh:
            skipped[number] = skipped.get(number, 0) - sum(number in span.covered for span in self._made)

    def _of_the_past(self, layout: Layout, last: Commit) -> list[Pending]:
        """List the windows of backfills that a commit tells of, without those that are in the log."""
        left = self.due_windows.recorded(layout, last, past=True)
        for span in self._made:
            for number, (first, end) in span.past.items():
                left = [part for one in left for part in _without(one, number, (first, end))]
        return left

    def _goes_on(self, definition: Definition, since_us: int, waiting: Collection[int]) -> bool:
        """Tell whether all windows that a query will answer begin where its lane is whole."""
        progress, window = self.progress, definition.query.window
        start, following = progress.windows.starts.get(definition.id), progress.windows.next_ends.get(definition.id)
        by_rows = isinstance(window, RowsWindow)
        if not by_rows and start is not None and start >= since_us:
            return True
        if definition.id in waiting or definition.typed.revise_us or following is None:
            return False
        if following - window.length < since_us:
            return False
        if not by_rows:
            progress.windows.starts[definition.id] = since_us
        return True


def _without(one: Pending, number: int, answered: tuple[int, int]) -> list[Pending]:
    """Leave out the windows of a definition from one end to another."""
    if one.definition.id != number:
        return [one]
    return [part for part in (one.upto(answered[0] - 1), one.after(answered[1])) if len(part.ends)]
