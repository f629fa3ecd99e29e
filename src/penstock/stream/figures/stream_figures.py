"""Counts how soon the windows of each query are answered, and divides what a stream spends among its queries.

*Response* is the time from when a window became final until its answers were in the log and left for the sinks.
*Slowdown* is the response over the ideal time: the low quartile of what it took to evaluate the query's windows and to
log and hand over the answers (Sharaf 2007, §3.4.1.2). *Tardiness* is what passes the query's deadline. *Staleness* is
how far the newest answer's window end had fallen behind the watermark when a newer answer took its place.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.kernel.pending import Pending
from penstock.model.arrays import Int64Array
from penstock.model.derived import is_line
from penstock.stream.answered_groups import AnsweredGroup, BackgroundWork, ProcessedBatch, Work
from penstock.stream.derived.row_times import RULERS
from penstock.stream.figures.figure_table import (
    ANSWER,
    COMMIT,
    INGEST,
    JOB,
    NEVER,
    RESPONSE,
    SLOWDOWN,
    STALENESS,
    TARDINESS,
    FigureTable,
)
from penstock.stream.figures.job_shares import JobShares


class StreamFigures:
    """The figures of one stream's queries; one thread writes them, and others may read them."""

    def __init__(self) -> None:
        """Begin with nothing answered."""
        self.table, self.reading = FigureTable(), threading.Lock()
        self.background_s: dict[str, float] = {}
        self._shares: tuple[object, JobShares] | None = None

    def observe(self, work: Work) -> None:
        """Take note of a piece of work that is done."""
        with self.reading:
            match work:
                case AnsweredGroup():
                    self._answered(work)
                case ProcessedBatch():
                    self._processed(work)
                case BackgroundWork():
                    before = self.background_s.get(work.name, 0.0)
                    self.background_s[work.name] = before + work.ended_s - work.began_s

    def copied(self) -> FigureTable:
        """Return the figures as they are now."""
        with self.reading:
            return self.table.copy()

    def _processed(self, batch: ProcessedBatch) -> None:
        """Divide a batch among the queries of its plan; figures of queries that are not in it any more go."""
        if self._shares is None or self._shares[0] is not batch.layout:
            self._shares = batch.layout, JobShares.of(batch.layout)
            self.table.forget_others({d.id % RULERS for d in batch.layout.plan.definitions})
        shares, table = self._shares[1], self.table
        if not shares.definitions:
            return
        rows, each = table.rows_of([d % RULERS for d in shares.definitions]), shares.of_batch(batch.partials)
        for step, seconds in ((JOB, batch.job_s), (INGEST, batch.ingest_s), (COMMIT, batch.commit_s)):
            table.charge(rows, step, each * seconds)
        np.add.at(table.bytes_sent, rows, each * batch.bytes_sent)

    def _answered(self, group: AnsweredGroup) -> None:
        """Count the windows of a group."""
        spent = group.seconds_by_query()
        if is_line(group.stream):
            group, spent = _without_rulers(group), _by_owner(spent)
        if group.due:
            rows = self.table.rows_of([one.definition.id for one in group.due])
            windows, ends = _windows_of(group.due)
            self._learn_ideal(group, spent)
            if group.kind != "past":  # which nobody waits for, and which is not what is newest
                self._respond(group, rows, windows)
                self._renew(group, rows, ends)
            self._charge(group, spent, rows, windows)
        elif spent:
            rows = self.table.rows_of(list(spent))
            self._charge(group, spent, rows, np.ones(len(rows), np.int64))

    def _learn_ideal(self, group: AnsweredGroup, spent: dict[int, float]) -> None:
        """Learn what answering a query's windows takes with nothing else in the way."""
        if spent:
            alone = np.fromiter(spent.values(), np.float64, len(spent)) + group.log_s + group.sink_s
            self.table.add_alone(self.table.rows_of(list(spent)), alone)

    def _respond(self, group: AnsweredGroup, rows: Int64Array, windows: Int64Array) -> None:
        """Count responses, slowdowns and tardiness."""
        finals = np.array([one.final_us for one in group.due], np.int64)
        response = np.maximum(0, group.ended_us - finals) / 1e6
        deadlines = np.array(group.deadlines_us, np.int64) / 1e6
        tardiness = np.where(deadlines > 0, np.maximum(0.0, response - deadlines), 0.0)  # windows of rows may have none
        self.table.add(rows, RESPONSE, response, windows)
        self.table.add(rows, SLOWDOWN, np.maximum(1.0, response / self.table.ideal_s(rows)), windows)
        self.table.add(rows, TARDINESS, tardiness, windows)
        np.add.at(self.table.late, rows, windows * (tardiness > 0))

    def _renew(self, group: AnsweredGroup, rows: Int64Array, ends: Int64Array) -> None:
        """Note how stale answers had become before these, and which are the newest ones now."""
        before = self.table.newest_us[rows]
        np.maximum.at(self.table.newest_us, rows, ends)
        newer = np.flatnonzero((before != NEVER) & (self.table.newest_us[rows] > before))
        renewed = newer[np.unique(rows[newer], return_index=True)[1]]  # a query may have several runs of windows
        if group.watermark_us is not None and len(renewed):
            stale = np.maximum(0, group.watermark_us - before[renewed]) / 1e6
            self.table.add(rows[renewed], STALENESS, stale, np.ones(len(renewed), np.int64))

    def _charge(self, group: AnsweredGroup, spent: dict[int, float], rows: Int64Array, windows: Int64Array) -> None:
        """Divide a group's time: what was measured among those it was measured for, the rest by their windows."""
        measured = sum(spent.values())
        scale = min(1.0, group.seconds / measured) if measured else 0.0  # threads measure more than passes by
        rest = max(0.0, group.seconds - measured) / max(1, int(windows.sum()))
        self.table.charge(rows, ANSWER, rest * windows.astype(np.float64))
        if spent:
            seconds = np.fromiter(spent.values(), np.float64, len(spent)) * scale
            self.table.charge(self.table.rows_of(list(spent)), ANSWER, seconds)


def _without_rulers(group: AnsweredGroup) -> AnsweredGroup:
    """Leave out what tells the times of row numbers: nobody asked for these windows."""
    kept = [place for place, one in enumerate(group.due) if one.definition.id < RULERS]
    due, deadlines = [group.due[place] for place in kept], [group.deadlines_us[place] for place in kept]
    return replace(group, due=due, deadlines_us=deadlines, items=[group.items[place] for place in kept])


def _by_owner(spent: dict[int, float]) -> dict[int, float]:
    """Charge what rulers took to the queries whose rulers they are."""
    found: dict[int, float] = {}
    for number, seconds in spent.items():
        found[number % RULERS] = found.get(number % RULERS, 0.0) + seconds
    return found


def _windows_of(due: Sequence[Pending]) -> tuple[Int64Array, Int64Array]:
    """Count the windows of each of some queries, and return the last end of each; nearly always, each is one run."""
    ends = [one.ends for one in due]
    slides, firsts = np.array([one.slide_us for one in ends], np.int64), np.concatenate([one.firsts for one in ends])
    counts = np.concatenate([one.counts for one in ends])
    if len(counts) == len(ends):
        return counts, firsts + (counts - 1) * slides
    runs = np.array([len(one.counts) for one in ends], np.int64)
    last = np.cumsum(runs) - 1
    return np.add.reduceat(counts, last - runs + 1), firsts[last] + (counts[last] - 1) * slides


class EngineFigures:
    """The figures of all streams of an engine, which its streams are observed by."""

    def __init__(self) -> None:
        """Begin without streams."""
        self.streams: dict[str, StreamFigures] = {}

    def observe(self, work: Work) -> None:
        """Take note of a piece of work of some stream."""
        self.of(work.stream).observe(work)

    def of(self, stream: str) -> StreamFigures:
        """Return the figures of a stream."""
        known = self.streams.get(stream)
        return self.streams.setdefault(stream, StreamFigures()) if known is None else known
