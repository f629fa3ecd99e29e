"""Joins two streams once for all joins over them with the same keys: the widest ranges are joined.

A step takes the commits that came since the last one: new rows of the left stream with all rows of the right one, and
those that the left one had with the new ones of the right. Both streams may run in threads of their own; whoever
commits takes the step. A pair depends on the rows of both sides and on how late they came in their own stream, never on
who came first: a row that is late finds those that would still have waited for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from penstock.errors import SourceError
from penstock.kernel.join_index import COMMIT, JUDGED, OWN, TIME, JoinIndex, Match, RowRun, count_between, matches
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.stream_join import LEFT, RIGHT, RetainedRows, StreamJoin
from penstock.stream.query_windows import NEVER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.stream.runner import StreamRunner

MOST_PAIRS: Final = 20_000_000  # of one step
POLL_S: Final = 0.05  # how often a stream that waits looks whether the other has come on
Place = tuple[int, int]  # the last commits of both streams that were taken


class JoinMember(Protocol):
    """One of the joins that are carried out together."""

    join: StreamJoin
    position: Place

    @property
    def settled_us(self) -> int | None:
        """Return the time before which no pair is to come; None: there was none yet."""

    def stand_by_commit(self) -> None:
        """Go on where the last commit stood if a step failed in the middle."""

    def take_pairs(self, pairs: JoinedPairs, upto: Place, watermark_us: int | None) -> None:
        """Take the pairs that are its own."""


@dataclass(frozen=True, slots=True)
class JoinedPairs:
    """Pairs of rows whose keys are equal: columns of both, and the time, commit and watermark of each row."""

    rows: pa.Table
    own: dict[str, Int64Array]  # of LEFT and RIGHT, each with TIME, COMMIT and JUDGED
    settled: bool = False  # all of them are pairs of the join: they were in their windows together

    def chosen(self, join: StreamJoin) -> pa.Table:
        """Choose the pairs of one join: within its ranges, of rows since it began, that would have waited."""
        left, right = ({name: self.own[side + name] for name in OWN} for side in (LEFT, RIGHT))
        wanted = np.ones(self.rows.num_rows, np.bool_) if self.settled else _within(join, left, right)
        read = [*(LEFT + name for name in join.left.columns), *(RIGHT + name for name in join.right.columns)]
        rows = self.rows.select(read or [LEFT + TIME])
        rows = rows if wanted.all() else rows.take(pa.array(np.flatnonzero(wanted)))
        later = np.maximum(left[TIME], right[TIME])[wanted]
        return rows.append_column(TIME, pa.array(later))


def _within(join: StreamJoin, left: Mapping[str, Int64Array], right: Mapping[str, Int64Array]) -> BoolArray:
    """Tell which pairs are within the ranges of a join, of rows since it began, that would have waited."""
    ranges = join.left.range_us, join.right.range_us
    wanted = (right[TIME] - left[TIME] <= ranges[0]) & (left[TIME] - right[TIME] <= ranges[1])
    wanted &= (left[TIME] + ranges[0] >= right[JUDGED]) & (right[TIME] + ranges[1] >= left[JUDGED])
    wanted &= (left[COMMIT] > join.begins[0]) & (right[COMMIT] > join.begins[1])
    return wanted


@dataclass(slots=True)
class JoinSideState:
    """What is held of one side."""

    runner: StreamRunner
    index: JoinIndex
    loaded: int  # the last commit whose rows are in the index
    held_s: float = 0.0  # for which the stream waited for the other one
    held_now: bool = False
    held_since: float = 0.0


@dataclass(slots=True)
class Stand:
    """Where a stream stands, by its last commit."""

    number: int
    watermark_us: int | None


class SharedJoin:
    """All joins over two streams with the same keys."""

    def __init__(
        self, left: StreamRunner, right: StreamRunner, join: StreamJoin, indexes: Sequence[JoinIndex] = ()
    ) -> None:
        """Begin with no rows: those that are kept are read when they are needed."""
        self.lock = threading.RLock()
        self.members: list[JoinMember] = []
        indexes = indexes or (JoinIndex(join.left.keys), JoinIndex(join.right.keys))
        self.sides = JoinSideState(left, indexes[0], -1), JoinSideState(right, indexes[1], -1)
        self.key: Hashable = join.shared_by
        self._settled: SparkSession | None = None

    def enter(self, member: JoinMember) -> None:
        """Let a join be carried out with the others."""
        with self.lock:
            if not self.members:
                for side, begins in zip(self.sides, member.join.begins, strict=True):
                    side.loaded = begins
            self.members.append(member)
            for number, side in enumerate(self.sides):
                side.runner.pipeline.intake.joining.expect((self.key, number))
            if any(begins < side.loaded for side, begins in zip(self.sides, member.join.begins, strict=True)):
                for number, side in enumerate(self.sides):  # at a restart, one after the other
                    side.index.runs, side.loaded = [], min(m.join.begins[number] for m in self.members)

    def leave(self, member: JoinMember) -> bool:
        """Forget a join; tell whether it was the last one."""
        with self.lock:
            self.members.remove(member)
            if self.members:
                return False
            for number, side in enumerate(self.sides):
                side.runner.pipeline.intake.joining.leave((self.key, number))
            return True

    def follow(self) -> None:
        """Take what both streams have committed since the last step."""
        with self.lock:
            for member in self.members:
                member.stand_by_commit()
            stands = [stand_of(side.runner) for side in self.sides]
            upto = (stands[0].number, stands[1].number)
            if all(member.position == upto for member in self.members):
                return
            for number, side in enumerate(self.sides):
                self._load(number, side, upto[number])
            known: dict[Place, JoinedPairs | None] = {}
            watermark_us = lesser_of(stands[0].watermark_us, stands[1].watermark_us)
            for member in [member for member in self.members if member.position != upto]:
                if member.position not in known:
                    known[member.position] = self._joined(member.position)
                member.take_pairs(known[member.position] or NO_PAIRS, upto, watermark_us)
            self._let_go(stands)

    def settled_session(self, make: Callable[[], SparkSession]) -> SparkSession:
        """Return a session for the pairs of all joins, which the first of them makes."""
        if self._settled is None:
            self._settled = make()
        return self._settled

    # -- rows ----------------------------------------------------------------------------------------------------

    def _load(self, number: int, side: JoinSideState, upto: int) -> None:
        """Put rows of new commits into the index; those that some join has taken and another has not, stay apart."""
        ends = sorted({m.position[number] for m in self.members if side.loaded < m.position[number] < upto} | {upto})
        for end in ends:
            if end > side.loaded:
                rows = side.runner.pipeline.intake.joining.between(side.loaded, end)
                if rows is not None:
                    side.index.add(rows, side.loaded + 1, end)
                side.loaded = end

    def _let_go(self, stands: Sequence[Stand]) -> None:
        """Let go of rows that no later one of the other side can find."""
        for number, side in enumerate(self.sides):
            taken = min(member.position[number] for member in self.members)
            reach_us = max(member.join.sides[number].range_us for member in self.members)
            passed = stands[1 - number].watermark_us
            since_us = -NEVER if passed is None else passed - reach_us
            side.index.expire(since_us, taken)
            side.index.merge(taken)
            side.runner.pipeline.intake.joining.keep_for((self.key, number), taken, since_us)

    # -- pairs ---------------------------------------------------------------------------------------------------

    def _joined(self, since: Place) -> JoinedPairs | None:
        """Join what came after a place with all, within the widest ranges; None: there is no pair."""
        left, right = self.sides[0].index, self.sides[1].index
        ranges = [max(member.join.sides[n].range_us for member in self.members) for n in (0, 1)]
        old_left, new_left = left.split(since[0])
        old_right, new_right = right.split(since[1])
        found: list[tuple[RowRun, RowRun, Match]] = []
        total = 0
        runs = [(one, other) for one in new_left for other in (*old_right, *new_right)]
        for one, other in [*runs, *((one, other) for one in old_left for other in new_right)]:
            match, total = self._matched(one, other, ranges, total)
            if len(match.probing):
                found.append((one, other, match))
        return pairs_of(found, *(self.columns_of(number) for number in (0, 1))) if found else None

    def _matched(self, left: RowRun, right: RowRun, ranges: Sequence[int], total: int) -> tuple[Match, int]:
        """Find the pairs of two runs: the shorter one looks for its partners in the other."""
        keys = self.sides[0].index.keys, self.sides[1].index.keys
        if len(left) <= len(right):
            first, last = count_between(left, right, ranges[1], ranges[0])
            total = self.counted(total, first, last)
            return matches(left, right, first, last, keys), total
        first, last = count_between(right, left, ranges[0], ranges[1])
        total = self.counted(total, first, last)
        found = matches(right, left, first, last, keys[::-1])
        return Match(found.found, found.probing), total

    def counted(self, total: int, first: Int64Array, last: Int64Array) -> int:
        """Add up pairs, and refuse more than memory holds."""
        total += int((last - first).sum())
        if total > MOST_PAIRS:
            names = " and ".join(f'"{side.runner.stream.name}"' for side in self.sides)
            what = f"one step of the join of streams {names} has more than {MOST_PAIRS:,} pairs"
            hint = "Equate more columns, narrow the ranges, or let fewer rows into a batch."
            raise SourceError(what, detail="all rows of a step are held in memory", hint=hint)
        return total

    def columns_of(self, number: int) -> list[str]:
        """List the columns of a side that pairs have."""
        return sorted({name for member in self.members for name in member.join.sides[number].columns})

    def retained(self) -> tuple[RetainedRows, RetainedRows]:
        """Tell how many rows of each side wait; no lock is taken."""
        left, right = (self._retained(side) for side in self.sides)
        return left, right

    def _retained(self, side: JoinSideState) -> RetainedRows:
        """Tell how many rows of one side wait."""
        name, held = side.runner.stream.name, side.held_s + (time.monotonic() - side.held_since if side.held_now else 0)
        return RetainedRows(name, side.index.rows, side.index.bytes, self._most_rows(), side.held_now, round(held, 3))

    def _most_rows(self) -> int:
        """Return how many rows of a side may wait before its stream does."""
        return max((member.join.most_rows for member in self.members), default=0)

    # -- a side that is ahead ------------------------------------------------------------------------------------

    def hold_back(self, runner: StreamRunner, stopping: threading.Event) -> None:
        """Let a stream wait that is ahead of the other one and has more rows waiting than the join allows."""
        for number, side in enumerate(self.sides):
            while side.runner is runner and self._is_ahead(number) and not stopping.is_set():
                if not side.held_now:
                    side.held_now, side.held_since = True, time.monotonic()
                stopping.wait(POLL_S)
            if side.runner is runner and side.held_now:
                side.held_now, side.held_s = False, side.held_s + time.monotonic() - side.held_since

    def _is_ahead(self, number: int) -> bool:
        """Tell whether a side has to wait: the other one runs, is behind it in time, and will let go of rows."""
        side, other = self.sides[number], self.sides[1 - number]
        if side.runner is other.runner or side.index.waiting <= self._most_rows() or not other.runner.running:
            return False
        mine, theirs = stand_of(side.runner).watermark_us, stand_of(other.runner).watermark_us
        return mine is not None and (theirs is None or theirs < mine)


NO_PAIRS: Final = JoinedPairs(pa.table({}), {})


def stand_of(runner: StreamRunner) -> Stand:
    """Tell where a stream stands: what its last commit says belongs together, whatever its thread does meanwhile."""
    last = runner.pipeline.commits.last()
    if last is None:
        return Stand(-1, None)
    return Stand(last.number, NEVER if last.ended else last.watermark_us)


def lesser_of(one: int | None, other: int | None) -> int | None:
    """Return the lesser of two watermarks; None: one side had no row yet, or both have ended."""
    if one is None or other is None or min(one, other) == NEVER:
        return None
    return min(one, other)


def pairs_of(found: Sequence[tuple[RowRun, RowRun, Match]], left: list[str], right: list[str]) -> JoinedPairs:
    """Put the pairs of all runs together."""
    tables = []
    for one, other, match in found:
        mine, theirs = pa.array(match.probing), pa.array(match.found)
        sides = (LEFT, one.rows, left, mine), (RIGHT, other.rows, right, theirs)
        columns = {
            before + name: rows[name].take(places)
            for before, rows, names, places in sides
            for name in (*names, *OWN)
            if name in rows.column_names
        }
        tables.append(pa.table(columns))
    whole = pa.concat_tables(tables, promote_options="default").combine_chunks()
    own = [before + name for before in (LEFT, RIGHT) for name in OWN]
    return JoinedPairs(
        whole.drop_columns(own[1:]), {name: np.asarray(whole[name].to_numpy(), np.int64) for name in own}
    )
