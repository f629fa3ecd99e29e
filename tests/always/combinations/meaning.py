"""The meaning of streams and queries in plain Python: batches and changes in, every answer, revision and count out.

It follows the words of the design, recomputes each window from plain rows, and knows nothing of the engine.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.always.combinations.answered import FOREVER, TERMS, Answered, Disagreement, Nature
from tests.always.combinations.expressions import Row
from tests.always.combinations.queries import TABLE, Pause, Query, Standing

__all__ = ["FOREVER", "TERMS", "Disagreement", "Nature", "Stream"]


@dataclass
class Stream(Answered):
    """A stream and its queries, from plain rows."""

    readers: list[tuple[Standing, Stream, list[int]]] = field(default_factory=list)  # streams made of answers

    # -- queries come and go -------------------------------------------------------------------------------------

    def create(self, name: str, query: Query, first_end: int | None, now: int) -> Standing:
        """Enter a query whose first window the engine has named; None before the first row."""
        said = [end - one.query.window.length for one in self._former(name) for end in one.answered]
        if not query.window.of_rows:
            known = [(one.query.window, one.next_end) for one in self._former(name) if one.next_end is not None]
            passed = [end - window.slide - window.length for window, end in known]
            self.check_first_end(query, first_end, *(([], []) if query.asks_past else (said, passed)))
        return self._enter(name, query, first_end, now)

    def _former(self, name: str) -> list[Standing]:
        return [standing for standing in self.ever if standing.name == name]

    def _enter(self, name: str, query: Query, first_end: int | None, now: int) -> Standing:
        standing = Standing(name, query, now, len(self._former(name)) + 1)
        if query.window.of_rows:
            standing.since = None if self.greatest is None else self.greatest + 1
        else:
            standing.next_end = standing.first_end = first_end
        self.queries[name] = standing
        self.ever.append(standing)
        return standing

    def settle(self) -> None:
        """Answer what is stored for new queries."""
        for standing in self._of_time():
            self._answer_due(standing, self.watermark)
        self.lead()

    def check_first_end(
        self, query: Query, first_end: int | None, said: Sequence[int] = (), passed: Sequence[int] = ()
    ) -> None:
        """A first window is a window, holds nothing that is not stored, and is not put off without need.

        ``said`` are the starts of windows that a query of that name has answered; what it said is not said again, and
        nor are windows that it ``passed`` over because they were empty.
        """
        window = query.window
        if (first_end is None) != (self.greatest is None):
            raise Disagreement(f"first window {first_end} with greatest ts {self.greatest}")
        if first_end is None or self.greatest is None or self.first is None:
            return
        if (first_end - window.phase) % window.slide:
            raise Disagreement(f"{first_end} is no window end of {query.sql()}")
        latest = window.end_at_or_after(max([self.greatest, *said, *passed]) + 1 + window.length)
        if not self.first < first_end <= latest:
            raise Disagreement(f"first window {first_end} is not in ({self.first}, {latest}]: {query.sql()}")
        if said and first_end - window.length <= max(said):
            raise Disagreement(f"{query.sql()} says again what it said before it was dropped: {first_end}")

    def alter(self, name: str, query: Query, first_end: int | None, now: int) -> None:
        """Replace a definition, which still answers the windows that began before the change.

        It goes at once if it is paused, if the new one asks for the past, and if it counts rows apart, or the new one
        does not count them alike. The new one of a query that was paused by hand is paused too.
        """
        old, new = self.queries.pop(name), query.window
        if self.greatest is not None:
            begins = max(self.greatest, self._said_until(old)) + 1
            if query.asks_past:
                self.check_first_end(query, first_end)
            elif not new.of_rows and first_end != new.end_at_or_after(begins + new.length):
                raise Disagreement(f"first window {first_end} of {query.sql()}, altered at {begins}")
            alike = old.query.window.kind == new.kind == "rows" or not old.query.window.of_rows
            if old.pause is None and alike and not query.asks_past:
                old.ends_before = begins
                self.leaving.append(old)
        self._enter(name, query, first_end, now)
        if old.pause is not None and old.pause.by_hand:
            self.pause(name)

    @staticmethod
    def _said_until(old: Standing) -> int:
        """Return when the last window began that a query has answered or passed over, after a silence for example."""
        window, following = old.query.window, old.next_end
        said = not window.of_rows and following is not None and following != old.first_end
        return following - window.slide - window.length if said and following is not None else -FOREVER

    def drop(self, name: str) -> None:
        del self.queries[name]
        self.leaving = [standing for standing in self.leaving if standing.name != name]

    def pause(self, name: str) -> None:
        for standing in self._called(name):
            since = -FOREVER if self.watermark is None else self.watermark
            if standing.query.window.of_rows:
                since = min(len(rows) for rows in standing.counted.values()) if standing.counted else 0
            standing.pause = standing.pause or Pause(since, since, by_hand=True)

    def resume(self, name: str) -> None:
        """Windows that ended meanwhile are never answered, and what was answered before is revised no more."""
        for standing in self._called(name):
            pause, standing.pause = standing.pause, None
            if pause is not None:
                self._go_on(standing, pause)

    def _go_on(self, standing: Standing, pause: Pause) -> None:
        window = standing.query.window
        if window.of_rows:
            standing.next_end = pause.resume
            return
        if standing.next_end is None and pause.by_hand and pause.resume == pause.until:
            return  # its first window is still open
        low = pause.resume if self.watermark is None else max(pause.resume, window.end_after(self.watermark))
        standing.next_end = window.end_at_or_after(max(low, standing.first_end or low))
        standing.revised_from = standing.next_end

    def backfill(self, name: str, first_end: int, begins: int | None) -> int:
        """Answer the windows from the one named up to those answered or promised; return how many there were.

        Windows that begin at ``begins`` or later are the query's own from now on, all if it is None.
        """
        for one in self.leaving:
            if one.name == name and one.ends_before is not None:
                one.ends_before = min(one.ends_before, -FOREVER if begins is None else begins)
        standing, watermark = self.queries[name], self.watermark
        assert watermark is not None
        assert standing.first_end is not None
        assert standing.next_end is not None
        self.check_first_end(standing.query, first_end)
        if first_end > standing.first_end:
            raise Disagreement(f"a backfill put the first window off, from {standing.first_end} to {first_end}")
        ends = range(first_end, min(standing.first_end, watermark + 1), standing.query.window.slide)
        for end in ends:
            self._answer(standing, end)
        standing.first_end = first_end
        if standing.next_end > watermark and not standing.answered - set(ends):
            standing.next_end = standing.query.window.end_after(max(watermark, first_end - 1))
        return len(ends)

    def outlive(self, clock: int) -> None:
        """Drop the queries whose lifetime is over."""
        for name, standing in list(self.queries.items()):
            if standing.query.lifetime is not None and standing.created + standing.query.lifetime <= clock:
                self.drop(name)

    # -- time moves ----------------------------------------------------------------------------------------------

    def batch(self, rows: Sequence[Row], clock: int) -> None:
        """Take one batch: judge its rows by the watermark before it, then move on."""
        assert not self.ended
        before, rows = self.watermark, [{**row, TABLE: self.table[-1]} for row in rows]
        self.counts["ingested"] += len(rows)
        taken = self._new_ones([row for row in rows if self._valid(row, clock)], before)
        late = [row for row in taken if before is not None and row["ts"] < before]
        self._pause_failing(taken)
        corrected = [row for row in late if self._corrects(row, before)]
        self.counts["on_time"] += len(taken) - len(late)
        self.counts["corrected"] += len(corrected)
        self.counts["late"] += len(late) - len(corrected)
        for row in taken:
            insort(self.times, row["ts"])
            insort(self.rows.setdefault(row["ts"], []), row, key=self._hash)
        self.waiting += [row for row in taken if before is None or row["ts"] >= before]
        self.at = clock
        if taken:
            self.first, self.greatest = self.times[0], self.times[-1]
        self._correct(late, before)
        if self.greatest is not None:
            self.advance(self.greatest - self.nature.lateness)
        self.lead()

    def heartbeat(self, clock: int) -> bool:
        """Move a stream on that was idle for long enough; a clock that is set back starts the waiting anew."""
        assert self.at is not None
        elapsed = clock - self.at
        if not self.nature.idle or self.watermark is None or self.ended or elapsed < self.nature.idle:
            self.at = min(self.at, clock)
            return False
        self.at = clock
        target = min(self.watermark + elapsed, clock - self.nature.lateness)
        if target <= self.watermark:
            return False
        self.advance(target)
        self.lead()
        return True

    def flush(self) -> None:
        """End the stream: each query answers through its last window that holds a row."""
        self.ended = True
        if self.watermark is not None:
            for standing in self._of_time():
                held = self._last_held_end(standing.query)
                self._answer_due(standing, self.watermark if held is None else max(self.watermark, held))
            self._number(FOREVER)
        self.lead()

    def _last_held_end(self, query: Query) -> int | None:
        for ts in reversed(self.times):
            if held := list(query.window.ends_holding(ts)):
                return held[-1]
        return None

    def advance(self, target: int) -> None:
        """Move the watermark, never back, and answer what is final."""
        after = target if self.watermark is None else max(target, self.watermark)
        for standing in self._of_time():
            self._answer_due(standing, after)
        self.watermark = after
        self._number(after)

    def lead(self) -> None:
        """Let the streams made of this one's answers take what is new, then the time up to which there is no more."""
        for standing, reader, taken in self.readers:
            new, taken[0] = standing.log[taken[0] :], len(standing.log)
            if new:
                rows = [[entry.start, entry.end, *entry.values, entry.end - 1] for entry in new]
                names = [name for name, _ in reader.nature.columns]
                reader.batch([dict(zip(names, values, strict=True)) for values in rows], 0)
            final = self._last_final_end(standing)
            if final is not None and not reader.ended and (reader.watermark is None or final > reader.watermark):
                reader.advance(final)
            reader.lead()

    def _last_final_end(self, standing: Standing) -> int | None:
        window = standing.query.window
        if standing.next_end is None or self.watermark is None or standing.next_end == standing.first_end:
            return None
        last = standing.next_end - window.slide
        return last if self.ended else min(last, window.end_after(self.watermark) - window.slide)
