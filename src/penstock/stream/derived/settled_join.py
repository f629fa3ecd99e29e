"""Joins two streams where later rows push earlier ones out of a window: pairs are made when no row can change them.

A step makes the pairs between the watermark of the last one and the lesser watermark of both streams. Until then rows
wait on both sides; the last rows of a partition stay for ever.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.errors import SourceError
from penstock.kernel.join_index import TIME, Match, RowRun, matches
from penstock.kernel.window_overlaps import WindowedRows, meeting
from penstock.model.stream_join import StreamJoin
from penstock.spark.kept_rows.join_rows import LastRows, row_ids
from penstock.stream.derived.shared_join import NO_PAIRS, JoinedPairs, SharedJoin, Stand, pairs_of, stand_of
from penstock.stream.query_windows import NEVER

if TYPE_CHECKING:
    from penstock.stream.runner import StreamRunner

BEFORE_ALL_US: Final = -(1 << 62)


class SettledJoin(SharedJoin):
    """One join over two streams, at least one side of which is the last rows of each partition."""

    def __init__(self, left: StreamRunner, right: StreamRunner, join: StreamJoin, name: str) -> None:
        """Begin with no rows; ``name`` is that of the stream of pairs."""
        self.windows = tuple(WindowedRows(side.keys, side=side) for side in join.sides)
        super().__init__(left, right, join, self.windows)
        self.key = name

    def follow(self) -> None:
        """Make the pairs that no row to come can change any more."""
        with self.lock:
            for member in self.members:
                member.stand_by_commit()
            stands = [stand_of(side.runner) for side in self.sides]
            upto = (stands[0].number, stands[1].number)
            settled_us = _settled(stands)
            for member in self.members:
                if member.position == upto or settled_us is None:
                    continue
                for number, side in enumerate(self.sides):
                    self._load(number, side, upto[number])
                since_us = BEFORE_ALL_US if member.settled_us is None else member.settled_us
                pairs = self._settled_pairs(since_us, settled_us)
                member.take_pairs(pairs, upto, None if settled_us == NEVER else settled_us)
                self._forget(member.join, upto, settled_us)

    def _settled_pairs(self, since_us: int, upto_us: int) -> JoinedPairs:
        """Find the pairs between two times: of each, one row comes while the other is in its window."""
        left, right = (window.settled(upto_us) for window in self.windows)
        if left is None or right is None:
            return NO_PAIRS
        keys, total = (self.sides[0].index.keys, self.sides[1].index.keys), 0
        found: list[tuple[RowRun, RowRun, Match]] = []
        first, last = meeting(left, right, since_us, same_time=False)
        total = self.counted(total, first, last)
        found.append((left, right, matches(left, right, first, last, keys)))
        first, last = meeting(right, left, since_us, same_time=True)
        self.counted(total, first, last)
        turned = matches(right, left, first, last, keys[::-1])
        found.append((left, right, Match(turned.found, turned.probing)))
        if not any(len(match.probing) for _, _, match in found):
            return NO_PAIRS
        return replace(pairs_of(found, *(self.columns_of(number) for number in (0, 1))), settled=True)

    def _forget(self, join: StreamJoin, upto: tuple[int, int], settled_us: int) -> None:
        """Let go of rows that have left their windows, also in the state folder."""
        for number, (side, window) in enumerate(zip(self.sides, self.windows, strict=True)):
            inside, joining = window.let_go(), side.runner.pipeline.intake.joining
            since_us = settled_us - (0 if window.side.rows else window.side.range_us)
            if not window.side.rows:
                joining.keep_for((self.key, number), upto[number], since_us)
                continue
            last = LastRows(np.empty(0, np.int64), since_us, since_us)
            if inside is not None and inside.num_rows:
                self._check(inside, join, window)
                first_us = int(np.asarray(inside[TIME].to_numpy(), np.int64).min())
                last = LastRows(row_ids(inside), first_us, since_us)
            joining.keep_last((self.key, number), upto[number], last)

    def _check(self, inside: pa.Table, join: StreamJoin, window: WindowedRows) -> None:
        """Refuse to keep more last rows than the join allows."""
        if inside.num_rows <= join.most_rows:
            return
        by = ", ".join(window.side.partition)
        what = f'stream "{self.key}" keeps {inside.num_rows:,} rows of "{window.side.stream}"'
        detail = f"the last {window.side.rows:,} rows" + (f" of each {by}" if by else "")
        hint = f"At most {join.most_rows:,} are allowed: drop it, and create another WITH (max_rows = …)."
        raise SourceError(what, detail=detail, hint=hint)


def _settled(stands: list[Stand]) -> int | None:
    """Return the time before which no row of either stream is to come on time; None: one has had no row yet."""
    times = [stand.watermark_us for stand in stands]
    return None if None in times else min(time for time in times if time is not None)
