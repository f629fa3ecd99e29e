"""Answers due windows: merges lanes, finishes queries of one shape together, asks Spark at most once.

Equal evaluations are one: queries of one lane and shape that ask for the same window get the rows of a single merge.
So identical queries cost one, and one with a longer period takes the answers of the shorter period where their windows
end together (Golab, Bijay and Özsu 2006, §4.2).
"""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.numbers import Component
from penstock.evaluate.finishing import INSTANT, AskSpark, Finished, Finisher, Shape
from penstock.evaluate.subtotals import subtotals
from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.bundles import ColumnLane
from penstock.evaluate.windows.partials import Merged, run_starts, sort_pairs
from penstock.kernel.defects import Defect
from penstock.kernel.revisions import first_revision, with_keys
from penstock.kernel.synopsis import Synopsis
from penstock.language.options import says_changes
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.instants import format_instant
from penstock.model.window import RowsWindow
from penstock.share.plan import LaneKey
from penstock.store.answers import DEFINITION

MUCH: Final = 20_000  # answers of one lane that are worth a thread
_Called = tuple[tuple[str, ...], bool, bool]  # names of outputs, revised, with groups


@dataclass(frozen=True, slots=True)
class Due:
    """Windows of one query to be answered now, by their ends in order."""

    definition: Definition
    lane: LaneKey
    ends: Int64Array
    starts: Int64Array | None = None  # of the windows, where their ends do not tell


@dataclass(frozen=True, slots=True)
class Failure:
    """A window that could not be answered."""

    definition: int
    window_end_us: int
    reason: str
    defect: Defect | None = None  # of Penstock; None: of the query's expressions, or of its rows


@dataclass(frozen=True, slots=True)
class _Kind:
    """How the windows of a query are answered: with which shape, outputs and columns."""

    number: int  # of the shape
    finisher: Finisher
    names: tuple[str, ...]  # of the outputs
    revised: bool  # late rows revise its answers, so these carry their revision and group
    grouped: bool  # its answers carry their group, because they are compared with others
    by_rows: bool  # its windows end with a row, not at a time

    def ending(self, end_us: int) -> str:
        """Say where a window ends."""
        return "with some row" if self.by_rows else f"at {format_instant(end_us)}"


@dataclass(frozen=True, slots=True)
class _Windows:
    """The due windows of some queries, query by query, and the evaluations that answer them, each once."""

    definitions: Int64Array  # of each window
    starts: Int64Array
    ends: Int64Array
    evaluation: Int64Array  # that answers each window
    chosen: Int64Array  # for each evaluation, a window that it answers
    firsts: Int64Array  # the first window of each query, and how many there are

    @staticmethod
    def of(members: Sequence[Due]) -> _Windows:
        """List the windows; those with the same start and end have the same evaluation."""
        counts = [len(one.ends) for one in members]
        ends = np.concatenate([one.ends for one in members])
        starts = np.concatenate([_starts(one) for one in members])
        evaluation, chosen = _distinct(starts, ends) if len(members) > 1 else (np.arange(len(ends)),) * 2
        definitions = np.repeat([one.definition.id for one in members], counts)
        return _Windows(definitions, starts, ends, evaluation, chosen, np.cumsum([0, *counts]))

    @staticmethod
    def joined(parts: Sequence[_Windows]) -> _Windows:
        """Put the windows of several lanes one after the other; what they evaluate is their own."""
        if len(parts) == 1:
            return parts[0]
        windows = np.cumsum([0, *(len(part.ends) for part in parts)])
        evaluations = np.cumsum([0, *(len(part.chosen) for part in parts)])
        firsts = [part.firsts[:-1] + at for part, at in zip(parts, windows, strict=False)]
        return _Windows(
            np.concatenate([part.definitions for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.ends for part in parts]),
            np.concatenate([part.evaluation + at for part, at in zip(parts, evaluations, strict=False)]),
            np.concatenate([part.chosen + at for part, at in zip(parts, windows, strict=False)]),
            np.concatenate([*firsts, windows[-1:]]),
        )

    def of_queries(self, positions: Sequence[int]) -> Int64Array:
        """List the windows of some queries."""
        return np.concatenate([np.arange(self.firsts[i], self.firsts[i + 1]) for i in positions])


@dataclass(slots=True)
class _Work:
    """The due windows of one shape and one lane, or of the columns of one bundle, on their way to answers.

    Rows are in order of their evaluations.
    """

    kinds: list[_Kind]  # of each due query
    finisher: Finisher
    windows: _Windows
    evaluation: Int64Array  # of each row
    inputs: pa.Table
    overflow: BoolArray  # rows that some aggregate has no answer for
    reason: str | None  # why the first of them has none
    finished: Finished | None = None


class Answering:
    """Answers due evaluations from a synopsis; keeps compiled shapes between batches.

    ``evaluations`` counts what was computed, ``shared`` the windows that were answered by another one's evaluation.
    """

    def __init__(self, synopsis: Synopsis, ask_spark: AskSpark, threads: int | None = None) -> None:
        """Read from a synopsis, lanes with many answers by several threads; ``ask_spark`` finishes what is not listed.

        Almost all of such work is in numpy and Arrow, which other threads need not wait for.
        """
        self.synopsis = synopsis
        self.threads = threads or os.cpu_count() or 1
        self.ask_spark = ask_spark
        self.evaluations = 0
        self.shared = 0
        self._finishers: dict[tuple[Shape, tuple[pa.DataType, ...]], tuple[int, Finisher]] = {}
        self._shapes = 0  # so far
        self._kinds: dict[int, _Kind] = {}  # by definition, whose number is never used again

    def forget(self, current: Container[int]) -> None:
        """Forget the queries that are gone."""
        self._kinds = {number: kind for number, kind in self._kinds.items() if number in current}
        used = {kind.number for kind in self._kinds.values()}
        self._finishers = {shape: known for shape, known in self._finishers.items() if known[0] in used}

    def answer(self, due: Sequence[Due]) -> tuple[list[pa.Table], list[Failure]]:
        """Compute all due answers; windows that fail are left out and reported."""
        by_lane: dict[int, dict[int, dict[int, list[Due]]]] = {}  # then by shape, then by the lane's key
        for one in due:
            lane = self.synopsis.lanes[one.lane]
            apart, number = id(lane.bundle if isinstance(lane, ColumnLane) else lane), self._kind(one.definition).number
            by_lane.setdefault(apart, {}).setdefault(number, {}).setdefault(id(one.lane), []).append(one)
        works = self._merge_all([[list(lanes.values()) for lanes in shapes.values()] for shapes in by_lane.values()])
        self.evaluations += sum(len(work.windows.chosen) for work in works)
        self.shared += sum(len(work.windows.ends) - len(work.windows.chosen) for work in works)
        self._finish(works)
        return _tables(works), [failure for work in works for failure in _failures(work)]

    def _merge_all(self, by_lane: Sequence[Sequence[Sequence[list[Due]]]]) -> list[_Work]:
        """Merge what is due lane by lane, in the order given; a lane is read by one thread."""

        def merged(shapes: Sequence[Sequence[list[Due]]]) -> list[_Work]:
            return [self._merge(lanes) for lanes in shapes]

        many = [self.threads > 1 and self._is_much(shapes) for shapes in by_lane]
        if sum(many) < 2:
            return [work for shapes in by_lane for work in merged(shapes)]
        with ThreadPoolExecutor(min(self.threads, sum(many)), "penstock-answer") as pool:
            begun = [pool.submit(merged, shapes) if much else None for shapes, much in zip(by_lane, many, strict=True)]
            found = [merged(s) if future is None else future for s, future in zip(by_lane, begun, strict=True)]
        return [work for one in found for work in (one.result() if isinstance(one, Future) else one)]

    def _is_much(self, shapes: Sequence[Sequence[list[Due]]]) -> bool:
        """Tell whether a lane's answers are worth a thread; users' code is called by one thread only."""
        first = shapes[0][0][0]
        windows = sum(len(one.ends) for lanes in shapes for members in lanes for one in members)
        users = any(c.code is not None for c in self.synopsis.lanes[first.lane].components)
        return not users and windows * len(self.synopsis.groups(first.lane)) >= MUCH

    def _kind(self, definition: Definition) -> _Kind:
        """Return what a query's windows are answered by: shapes are compared once a query, not once a window."""
        kind = self._kinds.get(definition.id)
        if kind is None:
            key = (Shape.of(definition.typed), definition.typed.key_types)
            if key not in self._finishers:
                self._finishers[key] = self._shapes, Finisher(definition.typed)
                self._shapes += 1
            names = tuple(output.name for output in definition.query.outputs)
            revised = definition.typed.revise_us > 0
            by_rows = isinstance(definition.query.window, RowsWindow)
            apart = isinstance(definition.query.window, RowsWindow) and bool(definition.query.window.partition)
            grouped = revised or apart or says_changes(definition.query)
            kind = self._kinds[definition.id] = _Kind(*self._finishers[key], names, revised, grouped, by_rows)
        return kind

    def _merge(self, lanes: Sequence[list[Due]]) -> _Work:
        """Merge partials for all windows of a shape at once, lane by lane, equal windows of a lane once."""
        parts = [_Windows.of(members) for members in lanes]
        windows = _Windows.joined(parts)
        kinds = [self._kind(one.definition) for members in lanes for one in members]
        finisher = kinds[0].finisher
        merged, components = self._evaluated(lanes, parts, windows)
        lane_key = lanes[0][0].lane  # of several, none has keys
        groups, sets = self.synopsis.groups(lane_key), None
        if finisher.typed.query.sets:
            found = subtotals(components, merged, groups, finisher.typed.query.sets)
            merged, sets, keys = found.merged, found.sets, list(found.keys)
        else:
            keys = [groups.keys(i, merged.group) for i in range(len(lane_key.keys))]
        evaluation = merged.evaluation
        values = dict(zip(components, merged.values, strict=True))
        chosen = windows.chosen[evaluation]
        inputs, overflow, reason = finisher.inputs(keys, values, (windows.starts[chosen], windows.ends[chosen]), sets)
        return _Work(kinds, finisher, windows, evaluation, inputs, overflow, reason)

    def _evaluated(
        self, lanes: Sequence[list[Due]], parts: Sequence[_Windows], windows: _Windows
    ) -> tuple[Merged, tuple[Component, ...]]:
        """Merge the partials of one lane, or of the columns of one bundle, for their due windows."""
        keep_empty = not lanes[0][0].definition.query.grouped
        starts, ends = windows.starts[windows.chosen], windows.ends[windows.chosen]
        found = [self.synopsis.lanes[members[0].lane] for members in lanes]
        columns = [lane.number for lane in found if isinstance(lane, ColumnLane)]
        key, merged, lane = lanes[0][0].lane, self.synopsis.merged, found[0]
        needed = {component for members in lanes for one in members for component in one.definition.typed.components}
        wanted = tuple(c for place, c in enumerate(lane.components) if place == 0 or c in needed)
        how: dict[str, Any] = {"keep_empty": keep_empty, "wanted": wanted}
        if isinstance(lane, ColumnLane):
            asked = np.repeat(columns, [len(part.chosen) for part in parts])
            return merged(key, lane.bundle.evaluate, starts, ends, asked, **how), wanted
        ranks = self.synopsis.groups(key).ranks() if key.keys else None
        return merged(key, lane.evaluate, starts, ends, ranks=ranks, **how), wanted

    def _finish(self, works: Sequence[_Work]) -> None:
        """Finish in Arrow what can be, the rest in one Spark job."""
        asked = [w for w in works if not w.finisher.in_arrow and w.inputs.num_rows]
        for work in works:
            if work.finisher.in_arrow:
                work.finished = work.finisher.finish(work.inputs)
        if asked:
            answers = self.ask_spark([w.finisher.request(w.inputs) for w in asked])
            for work, finished in zip(asked, answers, strict=True):
                work.finished = finished


def _starts(due: Due) -> Int64Array:
    """Return the starts of due windows."""
    return due.ends - due.definition.query.window.length if due.starts is None else due.starts


def _distinct(starts: Int64Array, ends: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Number windows, equal ones alike; also return one window of each number."""
    order = sort_pairs(ends, ends - starts)
    order = np.arange(len(ends)) if order is None else order
    runs = run_starts(ends[order], starts[order])
    if len(runs) == len(ends):  # nothing is shared, and rows stay in order of the queries
        return np.arange(len(ends)), np.arange(len(ends))
    numbers = np.empty(len(ends), np.int64)
    numbers[order] = np.repeat(np.arange(len(runs)), np.diff(runs, append=len(ends)))
    return numbers, np.asarray(order[runs], np.int64)


def _failed_rows(work: _Work, finished: Finished) -> BoolArray:
    """Tell the rows that are not answered: an expression fails on them, or on another row of their evaluation."""
    failed = finished.failed | work.overflow
    return np.isin(work.evaluation, work.evaluation[failed]) if failed.any() else failed


def _failures(work: _Work) -> list[Failure]:
    """List the windows of a piece of work that cannot be answered, for every query on its own."""
    if work.finished is None:
        return []
    reasons: dict[int, str] = {}
    for row in np.flatnonzero(work.finished.failed | work.overflow):
        reason = (work.reason if work.overflow[row] else work.finished.reason) or "failed"
        reasons.setdefault(int(work.evaluation[row]), work.finisher.spelled(reason))
    windows, found = work.windows, []
    for window in np.flatnonzero(np.isin(windows.evaluation, list(reasons))) if reasons else ():
        end_us = int(windows.ends[window])
        ending = f", in the window that ends {work.kinds[0].ending(end_us)}"
        reason = reasons[int(windows.evaluation[window])] + ending
        found.append(Failure(int(windows.definitions[window]), end_us, reason))
    return found


def _tables(works: Sequence[_Work]) -> list[pa.Table]:
    """Put answers with the same columns into one table."""
    by_schema: dict[tuple[str, ...], list[pa.Table]] = {}
    for work in works:
        for table in _named(work):
            by_schema.setdefault((*table.column_names, *map(str, table.schema.types)), []).append(table)
    return [pa.concat_tables(tables).combine_chunks() for tables in by_schema.values()]


def _named(work: _Work) -> list[pa.Table]:
    """Give the rows that HAVING keeps to every query that asks for them, under the names it has for them."""
    if work.finished is None:
        return []
    kept = np.flatnonzero(work.finished.keep & ~_failed_rows(work, work.finished))
    by_names: dict[_Called, list[int]] = {}
    for position, kind in enumerate(work.kinds):
        by_names.setdefault((kind.names, kind.revised, kind.grouped), []).append(position)
    held = np.bincount(work.evaluation[kept], minlength=len(work.windows.chosen))
    tables = [_given(work, kept, held, *wanted) for wanted in by_names.items()]
    return [table for table in tables if table.num_rows]


def _given(
    work: _Work,
    kept: Int64Array,
    held: Int64Array,
    called: _Called,
    positions: Sequence[int],
) -> pa.Table:
    """Write the answers of some queries of the same names: each evaluation's rows once for each query.

    ``kept`` are the rows to give, ``held`` their number by evaluation; they are taken once, however many queries ask.
    """
    (names, revised, grouped), windows, finished = called, work.windows, work.finished
    assert finished is not None
    mine = windows.of_queries(positions)
    evaluation = windows.evaluation[mine]
    lengths = held[evaluation]
    skipped = (np.cumsum(held) - held)[evaluation] - (np.cumsum(lengths) - lengths)
    rows = kept[np.arange(int(lengths.sum())) + np.repeat(skipped, lengths)]
    query = work.finisher.typed.query
    told_by = [f"k{i}" for i in range(len(query.keys))] + (["g"] if query.sets else [])  # a subtotal is no NULL group
    keys = [work.inputs[name] for name in told_by] if grouped else []
    whole = pa.table([*finished.table.columns, *keys], [str(i) for i in range(len(names) + len(keys))])
    if len(rows) != whole.num_rows or bool((rows[1:] != rows[:-1] + 1).any()):
        whole = whole.take(pa.array(rows))
    described = [np.repeat(column[mine], lengths) for column in (windows.definitions, windows.starts, windows.ends)]
    columns = [pa.array(described[0]), *(pa.array(times).view(INSTANT) for times in described[1:])]
    outputs, keys = whole.columns[: len(names)], whole.columns[len(names) :]
    table = pa.table([*columns, *outputs], [DEFINITION, "window_start", "window_end", *names])
    return first_revision(table, keys) if revised else with_keys(table, keys)
