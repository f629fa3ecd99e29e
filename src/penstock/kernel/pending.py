"""Cuts the windows that are final but not answered yet into rounds that fit into memory.

A round is a stretch of time: windows of several queries that end together are merged together, so that they are
shared as if there were one round only. What does not fit even so is cut by lane.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.due import EndRuns
from penstock.kernel.answering import Due, DueSessions
from penstock.kernel.synopsis import Synopsis
from penstock.model.arrays import BoolArray, FloatArray, Int64Array
from penstock.share.plan import LaneKey

MOST_ANSWERS: Final = 1_000_000  # of one round, as far as they can be foreseen
MOST_BYTES: Final = 256 << 20  # that computing them may take
HELD: Final = 4  # the answers of rounds that are done may take one of so many parts of the bytes of a round
VALUE_BYTES: Final = 48  # of a number on its way to an answer: as merged, as finished, and as written
CELL_BYTES: Final = 8  # of a group that a window may have, whether it has it or not
LEAST_FILLED: Final = 0.01  # of a lane's groups, that a window is expected to have
STATE_BYTES: Final = 1_024  # of a frequency table, a sketch or the like, for want of a better guess


DueRecord = tuple[int | list[int], ...]  # due windows of a query as a commit has them


@dataclass(frozen=True, slots=True, eq=False)
class ItemName:
    """Names windows of one slide that are answered together; there is one object for each item."""

    lane: LaneKey  # of one of its queries
    shape: int
    unit: tuple[object, ...]  # what is merged together, whatever the slide: the lane, or some columns of a bundle


ItemKey = ItemName | None  # None: windows of all lanes together


@dataclass(frozen=True, slots=True)
class Pending:
    """Windows of one query to be answered now."""

    definition: Definition
    lane: LaneKey
    ends: EndRuns
    until_us: int = 0  # the time up to which they were listed
    silent: int = 0  # empty windows right before the first of them
    first_row: int | None = None  # of windows of rows: none begins before it
    starts: Int64Array | None = None  # of ends that are listed one by one, where these do not tell
    final_us: int = 0  # when they became final, by the clock; after a restart: when they were listed again

    def record(self) -> DueRecord:
        """Write what a restart lists windows by that became final just now: first end, windows, until, empty before."""
        return self.ends.first_us, len(self.ends), self.until_us, self.silent

    def exact_record(self) -> DueRecord:
        """Write every run of ends too: rows that came since may be where there were none, and list other windows."""
        return *self.record(), self.ends.firsts.tolist(), self.ends.counts.tolist()

    @property
    def is_dated(self) -> bool:
        """Tell whether its answers get their times from those of another query, which are answered together with it."""
        return self.first_row is not None or self.starts is not None

    def upto(self, time_us: int) -> Pending:
        """Keep the windows that end by a time."""
        return self._cut(None, time_us)

    def after(self, time_us: int) -> Pending:
        """Keep the windows that end after a time."""
        return self._cut(time_us, max(time_us, self.ends.last_us))

    def parted(self, time_us: int) -> tuple[Pending | None, Pending | None]:
        """Part the windows that end by a time from those that end after it; None: there are none."""
        if self.ends.last_us <= time_us:  # of most queries, all windows are on one side
            return self, None
        if self.ends.first_us > time_us:
            return None, self
        return self.upto(time_us), self.after(time_us)

    def _cut(self, after_us: int | None, upto_us: int) -> Pending:
        """Keep the windows that end after a time, if one is given, and by another."""
        starts, ends = self.starts, self.ends.cut(after_us, upto_us)
        if ends is self.ends:  # nothing is cut off
            return self
        if starts is not None:  # each run is one end
            low = 0 if after_us is None else int(self.ends.firsts.searchsorted(after_us, "right"))
            starts = starts[low : int(self.ends.firsts.searchsorted(upto_us, "right"))]
        listed = self.until_us, self.silent, self.first_row
        return Pending(self.definition, self.lane, ends, *listed, starts, self.final_us)

    def due(self, after_us: int | None = None, upto_us: int | None = None) -> Due:
        """List the windows one by one, all or those that end after a time and by another."""
        chosen = self if upto_us is None else self._cut(after_us, upto_us)
        ends, starts = chosen.ends.to_array(), chosen.starts
        if self.first_row is not None:
            starts = np.maximum(ends - self.definition.query.window.length, self.first_row)
        return Due(self.definition, self.lane, ends, starts)


def pending_of(due: DueSessions, now_us: int) -> Pending:
    """Describe sessions as windows that end one by one, for whoever observes what is answered."""
    ends = due.sessions.ends
    return Pending(due.definition, due.lane, EndRuns.listed(ends), int(ends[-1]), final_us=now_us)


class Rounds:
    """Cuts pending windows into rounds, the earliest first, each of so many answers and bytes at most.

    How many of its lane's groups a window has is not known beforehand. At first all are expected; then as many as the
    windows of the round before had, and half as many again.
    """

    def __init__(self, synopsis: Synopsis, answers: int = MOST_ANSWERS, size: int = MOST_BYTES) -> None:
        """Expect every group in every window."""
        self.synopsis, self.size, self._least = synopsis, size, -(-size // answers)
        self._filled = 1.0
        self._each: dict[int, int] = {}  # bytes of an answer, by definition
        self._cells = 0  # of the last round: windows by groups of queries with keys

    def note(self, rows: int) -> None:
        """Learn from how many groups of windows were finished in the last round, whether they are answered or not."""
        if self._cells:
            self._filled = min(1.0, max(LEAST_FILLED, 1.5 * rows / self._cells))

    def are_much(self, answers: Sequence[pa.Table]) -> bool:
        """Tell whether answers of rounds that are done should not be in memory beside those of the next one."""
        return HELD * sum(int(table.nbytes) for table in answers) > self.size

    def forget(self, current: Container[int]) -> None:
        """Forget the queries that are gone."""
        self._each = {number: size for number, size in self._each.items() if number in current}

    def cut(self, pending: Sequence[Pending]) -> Iterator[list[Due]]:
        """Return what to answer together, round by round."""
        most = {lane: self.synopsis.most_groups(lane) for lane in {one.lane for one in pending}}
        groups = np.array([most[one.lane] for one in pending], np.int64)
        each = np.array([self._bytes_of(one.definition) for one in pending], np.int64)
        windows = np.array([len(one.ends) for one in pending], np.int64)
        keyed = np.array([bool(one.lane.keys) for one in pending], np.bool_)
        if not windows.sum():
            return
        if float(self._weights(groups, each, keyed) @ windows) <= self.size:
            self._cells = int((groups * windows)[keyed].sum())
            yield [one.due() for one in pending]
            return
        runs = _Runs.of(pending)
        while not runs.done:
            weights = self._weights(groups, each, keyed)
            after_us, upto_us = runs.stretch(weights, self.size)
            listed = [one.due(after_us, upto_us) for one in pending]
            chosen = [place for place, due in enumerate(listed) if len(due.ends)]
            if any(pending[place].is_dated for place in chosen):
                self._cells = sum(int(groups[p]) * len(listed[p].ends) for p in chosen if keyed[p])
                yield [listed[place] for place in chosen]
                continue
            for places in _by_lane([listed[place].lane for place in chosen], chosen, listed, weights, self.size):
                self._cells = sum(int(groups[p]) * len(listed[p].ends) for p in places if keyed[p])
                yield [listed[place] for place in places]

    def _bytes_of(self, definition: Definition) -> int:
        """Return about how many bytes computing one answer takes, so many at least that there are not too many."""
        known = self._each.get(definition.id)
        if known is None:
            known = self._each[definition.id] = max(self._least, _bytes_of(definition))
        return known

    def _weights(self, groups: Int64Array, each: Int64Array, keyed: BoolArray) -> FloatArray:
        """Return the bytes that a window of each query takes."""
        return np.where(keyed, groups * (CELL_BYTES + self._filled * each), each)


class _Runs:
    """The runs of ends of several queries, all together, and the time up to which they are cut."""

    def __init__(self, firsts: Int64Array, counts: Int64Array, slides: Int64Array, query: Int64Array) -> None:
        """Begin before the first end."""
        self.firsts, self.counts, self.slides, self.query = firsts, counts, slides, query
        self._last_us = int((firsts + (counts - 1) * slides).max())
        self._after_us = int(firsts.min()) - 1

    @staticmethod
    def of(pending: Sequence[Pending]) -> _Runs:
        """Put the runs of queries together."""
        query = np.repeat(np.arange(len(pending)), [len(one.ends.firsts) for one in pending])
        slides = np.array([one.ends.slide_us for one in pending], np.int64)[query]
        firsts = np.concatenate([one.ends.firsts for one in pending])
        return _Runs(firsts, np.concatenate([one.ends.counts for one in pending]), slides, query)

    @property
    def done(self) -> bool:
        """Tell whether no end is left."""
        return self._after_us >= self._last_us

    def stretch(self, weights: FloatArray, size: int) -> tuple[int, int]:
        """Return the next stretch of time, after … up to: its ends weigh no more than ``size``, or are at one time."""
        done, each = self._passed(self._after_us), weights[self.query]
        left = done < self.counts
        low, high = int((self.firsts + done * self.slides)[left].min()), self._last_us  # low: taken in any case
        while low < high:
            middle = (low + high + 1) // 2
            heavy = float((self._passed(middle) - done) @ each) > size
            low, high = (low, middle - 1) if heavy else (middle, high)
        after_us, self._after_us = self._after_us, low
        return after_us, low

    def _passed(self, time_us: int) -> Int64Array:
        """Count the ends of each run up to a time."""
        return np.asarray(np.clip((time_us - self.firsts) // self.slides + 1, 0, self.counts), np.int64)


def _bytes_of(definition: Definition) -> int:
    """Return about how many bytes computing one answer takes."""
    components = definition.typed.components
    states = sum(component.is_state for component in components)
    values = 3 + len(definition.query.keys) + len(definition.query.outputs) + len(components) - states
    return (values * VALUE_BYTES + states * STATE_BYTES) * max(1, len(definition.query.sets))


def _by_lane(
    lanes: Sequence[LaneKey], places: Sequence[int], listed: Sequence[Due], weights: FloatArray, size: int
) -> Iterator[list[int]]:
    """Cut queries whose windows weigh too much together, lane by lane: queries of one lane share their merges."""
    members: dict[LaneKey, list[int]] = {}
    for lane, place in zip(lanes, places, strict=True):
        members.setdefault(lane, []).append(place)
    found: list[int] = []
    total = 0.0
    for together in members.values():
        more = sum(float(weights[place]) * len(listed[place].ends) for place in together)
        if found and total + more > size:
            yield found
            found, total = [], 0.0
        found, total = found + together, total + more
    if found:
        yield found
