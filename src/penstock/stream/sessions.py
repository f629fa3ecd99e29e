"""Keeps the sessions of a stream: takes what a batch brings, and finds those that the watermark has passed.

Sessions are answered as soon as they are final. Open ones are not written down: a restart puts them together again from
the partials of the commits that hold a row of one, batch by batch, as each batch was judged by its own watermark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.evaluate.components.numbers import pick
from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.session_lane import SessionLane, SessionStore
from penstock.evaluate.windows.sessions import BEFORE_ALL, OpenSessions, Sessions
from penstock.kernel.answering import DueSessions
from penstock.kernel.synopsis import Synopsis
from penstock.model.arrays import BoolArray
from penstock.share.layout import Layout
from penstock.share.plan import SESSIONS, LaneKey
from penstock.stream.progress import Progress


@dataclass(slots=True)
class StreamSessions:
    """The sessions of the queries of one stream."""

    synopsis: Synopsis
    progress: Progress
    due: Sequence[DueSessions] = field(default=(), init=False)  # final, and not answered yet

    def take(self, layout: Layout, judged_us: int | None) -> dict[int, int]:
        """Take what a batch has brought; return the rows that came too late for each query."""
        late: Counter[int] = Counter()
        judged = BEFORE_ALL if judged_us is None else judged_us
        for key, lane, members in self._lanes(layout):
            self.synopsis.on_lane(key, "sessions were put together", self._take, lane, members, judged, late)
        return dict(late)

    def close_after_batch(self, layout: Layout) -> None:
        """Let go of the sessions that the watermark has passed with a batch; without one, nothing is final."""
        self.close(layout, BEFORE_ALL if (reached := self.progress.clock.watermark_us) is None else reached)

    def close(self, layout: Layout, watermark_us: int | None) -> None:
        """Let go of the sessions that a watermark has passed, to be answered; None: of all."""
        found: list[DueSessions] = []
        for key, lane, members in self._lanes(layout):
            self.synopsis.on_lane(key, "sessions were ended", self._close, key, lane, members, watermark_us, found)
        self.due = found

    def replay(self, layout: Layout, before_us: int | None, watermark_us: int | None) -> None:
        """Do as was done for a commit, by the watermark before and after it."""
        if before_us is not None:  # heartbeats may have come before it
            self.close(layout, before_us)
        self.take(layout, before_us)
        self.due = ()
        if watermark_us is not None:
            self.close(layout, watermark_us)

    def replay_end(self, layout: Layout, *, flushed: bool) -> None:
        """End the open sessions, as when the stream ended: with a commit before, or with this one."""
        self.close(layout, None)
        self.due = self.due if flushed else ()

    def note_too_late(self, late: dict[int, int]) -> None:
        """Count rows that came too late."""
        counts = self.progress.windows.too_late
        for number, rows in late.items():
            counts[number] = counts.get(number, 0) + rows

    def _lanes(self, layout: Layout) -> Iterator[tuple[LaneKey, SessionLane, Sequence[Definition]]]:
        """List the lanes of sessions with their queries; each has the stores that these need."""
        trees = [tree for tree in layout.plan.trees if tree.space == SESSIONS]
        lanes = self.synopsis.session_lanes() if trees else {}
        for key, members in (item for tree in trees for item in tree.lanes.items()):
            lanes[key].settle(map(self._store_of, members))
            yield key, lanes[key], members

    def _store_of(self, definition: Definition) -> SessionStore:
        """Name the sessions that a query reads."""
        return SessionStore(definition.query.window.length, self.progress.windows.starts.get(definition.id))

    def _take(self, lane: SessionLane, members: Sequence[Definition], judged_us: int, late: Counter[int]) -> None:
        """Put what came for a lane into its sessions."""
        rows = lane.take(judged_us)
        for definition in members if rows else ():
            late[definition.id] += rows.get(self._store_of(definition), 0)

    def _close(
        self,
        key: LaneKey,
        lane: SessionLane,
        members: Sequence[Definition],
        watermark_us: int | None,
        found: list[DueSessions],
    ) -> None:
        """End sessions of a lane, and note from when on its queries still need something."""
        closed = {name: store.close(watermark_us) for name, store in lane.stores.items()}
        for definition in members:
            name = self._store_of(definition)
            self._note_next_end(definition, lane.stores[name], watermark_us)
            mine = self._answered(definition, closed[name])
            if len(mine):
                found.append(DueSessions(definition, key, mine))

    def _note_next_end(self, definition: Definition, store: OpenSessions, watermark_us: int | None) -> None:
        """Note when the next session ends at the earliest, and from when on partials are needed for a restart."""
        windows, gap_us, known = self.progress.windows, definition.query.window.length, list[int]()
        if watermark_us is not None and watermark_us > BEFORE_ALL:
            known.append(watermark_us - gap_us)
        if store.first_us is not None and store.begun_us is not None:
            windows.sessions_since[definition.id] = min([store.first_us, *known])
            known.append(store.begun_us)
        elif known:
            windows.sessions_since[definition.id] = known[0]
        if known:
            windows.next_ends[definition.id] = min(known) + gap_us
        windows.open_sessions[definition.id] = len(store)
        if self.progress.clock.first_us is not None:
            start = windows.starts.get(definition.id)
            begins = self.progress.clock.first_us if start is None else start
            windows.first_ends.setdefault(definition.id, begins + gap_us)

    def _answered(self, definition: Definition, closed: Sessions) -> Sessions:
        """Choose the sessions that a query answers: whole ones, before a pause, that no later definition answers."""
        windows = self.progress.windows
        until = windows.last_own_end(definition) - definition.query.window.length
        chosen = (closed.begun >= windows.sessions_from(definition)) & (closed.begun <= until)
        paused = windows.paused.get(definition.id)
        if paused is not None:
            chosen &= closed.ends <= paused.until_us
        return chosen_of(closed, chosen)


def chosen_of(sessions: Sessions, chosen: BoolArray) -> Sessions:
    """Keep some sessions."""
    if chosen.all():
        return sessions
    rows = np.flatnonzero(chosen)
    values = {component: pick(one, rows) for component, one in sessions.values.items()}
    starts, begun, ends = sessions.starts[rows], sessions.begun[rows], sessions.ends[rows]
    return Sessions(starts, begun, ends, sessions.groups[rows], values)
