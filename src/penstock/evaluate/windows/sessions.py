"""Puts partials together to sessions, group by group, and tells which of them are final.

Rows of a group that follow each other at most a gap apart are one session. A partial is of rows that are closer than
that, so it is a part of one session, from the time of its first row to that of its last::

    gap 5      ├────┤ . . .├─┤ . . . . .        . : at most the gap apart, so they are one session
             ──┴────┴──────┴─┴─────┴──────►     it ends a gap after its last row

A session is final once the watermark has passed its end: then no row on time can join it. What is final is let go of,
so what remains are the open ones, of each the first and last time and its merged components.

Late rows may let an open session begin earlier. For whoever asks which sessions began before a time, such rows count
as no earlier than a gap before the watermark that judged them: a row before that makes no session by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.evaluate.components.extremes import FIRST_OF_SESSION, LAST_OF_SESSION
from penstock.evaluate.components.numbers import ROWS, Component, Planes, Values
from penstock.evaluate.windows.partials import Partials, concatenate, no_partials, reduce_runs, run_starts
from penstock.model.arrays import BoolArray, Int64Array

BEFORE_ALL: int = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions in order of their ends, then of their groups and beginnings."""

    starts: Int64Array
    begun: Int64Array  # when they began, late rows counted as no earlier than a gap before the watermark
    ends: Int64Array
    groups: Int64Array
    values: dict[Component, Values]

    def __len__(self) -> int:
        """Count the sessions."""
        return len(self.groups)


class OpenSessions:
    """The sessions of one gap that are not final, for all groups of one condition."""

    def __init__(self, gap_us: int, components: Sequence[Component]) -> None:
        """Begin without sessions."""
        self.gap_us, self.components = gap_us, tuple(components)
        self._held = no_partials(self.components)  # labelled with their first times
        self._begun = np.empty(0, np.int64)
        self.operations = 0  # partials merged

    def __len__(self) -> int:
        """Count the open sessions."""
        return len(self._held)

    @property
    def first_us(self) -> int | None:
        """Return when the earliest of them begins; None: there is none."""
        return int(self._held.labels.min()) if len(self._held) else None

    @property
    def begun_us(self) -> int | None:
        """Return the same, with late rows counted as no earlier than a gap before the watermark."""
        return int(self._begun.min()) if len(self._held) else None

    @property
    def groups(self) -> Int64Array:
        """Return the groups that have one."""
        return np.unique(self._held.groups)

    @property
    def planes(self) -> tuple[Planes, ...]:
        """Return what is held of each component."""
        return self._held.planes

    @property
    def nbytes(self) -> int:
        """Return how much memory they take, states not counted."""
        return self._held.nbytes

    def renumber(self, moved: Int64Array) -> None:
        """Give groups other numbers."""
        held = self._held
        self._held = Partials(held.labels, moved[held.groups], held.planes)

    def hold(self, components: Sequence[Component]) -> None:
        """Hold other components from now on; of one that is new, the sessions so far have nothing."""
        known = dict(zip(self.components, self._held.planes, strict=True))
        count = len(self._held)
        planes = tuple(known[c] if c in known else c.identities(count) for c in components)
        self._held = Partials(self._held.labels, self._held.groups, planes)
        self.components = tuple(components)

    def take(self, partials: Partials, judged_us: int) -> int:
        """Take the partials of a batch; return the rows of those that came too late.

        Of what a batch brings, with the open sessions that it touches, a session is too late if it would be final by
        the watermark that the batch is judged by.
        """
        if not len(partials):
            return 0
        concerned = np.isin(self._held.groups, partials.groups)
        whole = concatenate([self._held.take(concerned), partials])
        first, last = self._times(whole)
        begun = np.append(self._begun[concerned], np.maximum(self._times(partials)[0], judged_us - self.gap_us))
        order = np.lexsort((first, whole.groups))
        whole, first, last = whole.take(order), first[order], last[order]
        starts = session_starts(whole.groups, first, last, self.gap_us)
        self.operations += len(whole) - len(starts)
        planes = tuple(reduce_runs(c, p, starts) for c, p in zip(self.components, whole.planes, strict=True))
        merged = Partials(first[starts], whole.groups[starts], planes)
        late = self._times(merged)[1] + self.gap_us < judged_us
        begun = np.minimum.reduceat(begun[order], starts)
        self._held = concatenate([self._held.take(~concerned), merged.take(~late)])
        self._begun = np.append(self._begun[~concerned], begun[~late])
        rows = planes[self.components.index(ROWS)][0]
        return int(rows[late].sum())

    def close(self, watermark_us: int | None) -> Sessions:
        """Let go of the sessions that a watermark has passed, and return them; None: of all."""
        ends = self._times(self._held)[1] + self.gap_us
        final = np.ones(len(ends), np.bool_) if watermark_us is None else ends < watermark_us
        closed = self._sessions(final, ends)
        self._held, self._begun = self._held.take(~final), self._begun[~final]
        return closed

    def _sessions(self, final: BoolArray, ends: Int64Array) -> Sessions:
        """Return some sessions in order of their ends."""
        chosen = self._held.take(final)
        order = np.lexsort((chosen.labels, chosen.groups, ends[final]))
        chosen = chosen.take(order)
        values = {c: c.values_from(p) for c, p in zip(self.components, chosen.planes, strict=True)}
        return Sessions(chosen.labels, self._begun[final][order], ends[final][order], chosen.groups, values)

    def _times(self, partials: Partials) -> tuple[Int64Array, Int64Array]:
        """Return the first and the last time of each partial."""
        planes = dict(zip(self.components, partials.planes, strict=True))
        return planes[FIRST_OF_SESSION][0], planes[LAST_OF_SESSION][0]


def session_starts(groups: Int64Array, first: Int64Array, last: Int64Array, gap_us: int) -> Int64Array:
    """Return where sessions begin among stretches in order of their groups and first times."""
    if not len(groups):
        return np.empty(0, np.int64)
    reached = _reached(groups, last)
    apart = (groups[1:] != groups[:-1]) | (first[1:] - reached[:-1] > gap_us)
    return np.append(0, np.flatnonzero(apart) + 1).astype(np.int64)


def _reached(groups: Int64Array, last: Int64Array) -> Int64Array:
    """Return the greatest time so far of each stretch's group: one may lie within another."""
    times, ranks = np.unique(last, return_inverse=True)
    runs = run_starts(groups, np.zeros(len(groups), np.int64))
    number = np.repeat(np.arange(len(runs)), np.diff(runs, append=len(groups)))
    highest = np.maximum.accumulate(number * len(times) + ranks)  # a later group is above all of the one before
    return np.asarray(times[highest - number * len(times)], np.int64)
