"""Answers due windows: merges lanes, finishes queries of one shape together, asks Spark at most once.

Equal evaluations are one: queries of one lane and shape that ask for the same window get the rows of a single merge.
So identical queries cost one, and one with a longer period takes the answers of the shorter period where their windows
end together (Golab, Bijay and Özsu 2006, §4.2).
"""

from __future__ import annotations

import os
import time
from collections.abc import Container, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Component
from penstock.evaluate.finishing import AskSpark, Finisher, Shape
from penstock.evaluate.subtotals import subtotals
from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.bundles import ColumnLane
from penstock.evaluate.windows.partials import Merged
from penstock.evaluate.windows.sessions import Sessions
from penstock.evaluate.windows.sweeps import Swept
from penstock.kernel.due_evaluations import Due, EvaluatedWindows
from penstock.kernel.finished_answers import AnswerKind, Failure, MergedWindows, finished_answers
from penstock.kernel.shared_sweeps import AskedWindows, merged_together, sweep_of
from penstock.kernel.synopsis import Synopsis
from penstock.language.options import says_changes
from penstock.model.window import RowsWindow
from penstock.share.plan import LaneKey

__all__ = ["Answering", "Due", "DueSessions", "Failure", "Spent"]

MUCH: Final = 20_000  # answers of one lane that are worth a thread


@dataclass(frozen=True, slots=True)
class Spent:
    """What it took to answer windows of one lane, or bundle, and shape."""

    definition: int  # of one of their queries
    windows: int
    seconds: float
    evaluated: EvaluatedWindows | None = None  # of all of their queries; None: of that one only


@dataclass(frozen=True, slots=True)
class DueSessions:
    """Sessions of one query to be answered now."""

    definition: Definition
    lane: LaneKey
    sessions: Sessions


class Answering:
    """Answers due evaluations from a synopsis; keeps compiled shapes between batches.

    ``evaluations`` counts what was computed, ``shared`` the windows that were answered by another one's evaluation,
    ``rows`` the groups of windows that were finished, before HAVING and LIMIT leave some out.
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
        self.rows = 0
        self._finishers: dict[tuple[Shape, tuple[pa.DataType, ...], tuple[Component, ...]], tuple[int, Finisher]] = {}
        self._shapes = 0  # so far
        self._kinds: dict[int, AnswerKind] = {}  # by definition, whose number is never used again
        self._spent: list[Spent] = []  # since it was asked for

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
        parts = self._merge_all([[list(lanes.values()) for lanes in shapes.values()] for shapes in by_lane.values()])
        self.evaluations += sum(len(part.windows.chosen) for part in parts)
        self.shared += sum(len(part.windows.ends) - len(part.windows.chosen) for part in parts)
        self.rows += sum(map(_rows_of, parts))
        began = time.perf_counter()
        finished = finished_answers(parts, self.ask_spark)
        self._note(parts, time.perf_counter() - began)
        return finished

    def answer_sessions(self, due: Sequence[DueSessions]) -> tuple[list[pa.Table], list[Failure]]:
        """Finish the sessions of queries; those that fail are left out and reported."""
        parts = [self._finishing(one) for one in due]
        self.evaluations += sum(len(one.sessions) for one in due)
        began = time.perf_counter()
        finished = finished_answers(parts, self.ask_spark)
        self._note(parts, time.perf_counter() - began)
        return finished

    def _finishing(self, due: DueSessions) -> MergedWindows:
        """Describe the sessions of a query as windows that are merged already, each of them evaluated once."""
        sessions, kind = due.sessions, self._kind(due.definition)
        every = np.arange(len(sessions))
        numbers = np.full(len(sessions), due.definition.id, np.int64)
        bounds = np.array([0, len(sessions)], np.int64)
        windows = EvaluatedWindows(numbers, sessions.starts, sessions.ends, every, every, bounds)
        components = kind.finisher.typed.components
        merged = Merged(every, sessions.groups, tuple(sessions.values[c] for c in components))
        return MergedWindows([kind], windows, merged, components, self.synopsis.groups(due.lane), None)

    def spent(self) -> list[Spent]:
        """Return what it took to answer windows since this was last asked for."""
        spent, self._spent = self._spent, []
        return spent

    def shape_of(self, definition: Definition) -> int:
        """Return the number of a query's shape."""
        return self._kind(definition).number

    def _note(self, parts: Sequence[MergedWindows], finishing: float) -> None:
        """Note what parts took: merging them, and their share of the time in which all were finished."""
        rows = [len(part.merged.evaluation) for part in parts]
        each = finishing / max(1, sum(rows) + len(rows))  # of a row; a part counts as one more
        self._spent += [
            Spent(
                int(part.windows.definitions[0]), len(part.windows.ends), part.seconds + each * (held + 1), part.windows
            )
            for part, held in zip(parts, rows, strict=True)
            if len(part.windows.definitions)
        ]

    def _merge_all(self, by_lane: Sequence[Sequence[Sequence[list[Due]]]]) -> list[MergedWindows]:
        """Merge what is due lane by lane, in the order given; a lane is read by one thread."""

        def merged(shapes: Sequence[Sequence[list[Due]]]) -> list[MergedWindows]:
            return self._merge_shapes(shapes)

        many = [self.threads > 1 and self._is_much(shapes) for shapes in by_lane]
        if sum(many) < 2:
            return [part for shapes in by_lane for part in merged(shapes)]
        began = time.perf_counter()
        with ThreadPoolExecutor(min(self.threads, sum(many)), "penstock-answer") as pool:
            begun = [pool.submit(merged, shapes) if much else None for shapes, much in zip(by_lane, many, strict=True)]
            found = [merged(s) if future is None else future for s, future in zip(by_lane, begun, strict=True)]
        parts = [part for one in found for part in (one.result() if isinstance(one, Future) else one)]
        return _by_the_clock(parts, time.perf_counter() - began)

    def _is_much(self, shapes: Sequence[Sequence[list[Due]]]) -> bool:
        """Tell whether a lane's answers are worth a thread; users' code is called by one thread only."""
        first = shapes[0][0][0]
        windows = sum(len(one.ends) for lanes in shapes for members in lanes for one in members)
        users = any(c.code is not None for c in self.synopsis.lanes[first.lane].components)
        return not users and windows * len(self.synopsis.groups(first.lane)) >= MUCH

    def _kind(self, definition: Definition) -> AnswerKind:
        """Return what a query's windows are answered by: shapes are compared once a query, not once a window."""
        kind = self._kinds.get(definition.id)
        if kind is None:
            typed = definition.typed  # sessions have components that windows of the same text have not
            key = (Shape.of(typed), typed.key_types, typed.components)
            if key not in self._finishers:
                self._finishers[key] = self._shapes, Finisher(typed)
                self._shapes += 1
            names = tuple(output.name for output in definition.query.outputs)
            revised = typed.revise_us > 0
            by_rows = isinstance(definition.query.window, RowsWindow)
            apart = isinstance(definition.query.window, RowsWindow) and bool(definition.query.window.partition)
            grouped = revised or apart or says_changes(definition.query)
            kind = self._kinds[definition.id] = AnswerKind(*self._finishers[key], names, revised, grouped, by_rows)
        return kind

    def _merge_shapes(self, shapes: Sequence[Sequence[list[Due]]]) -> list[MergedWindows]:
        """Merge what is due on a lane, or bundle, shape by shape; shapes that sweep for the same do so together."""
        sweeps: dict[object, list[int]] = {}
        for place, lanes in enumerate(shapes):
            swept = self.sweep_of(lanes[0][0].lane, lanes[0][0].definition) if len(shapes) > 1 else None
            sweeps.setdefault(place if swept is None else swept, []).append(place)
        found: dict[int, MergedWindows] = {}
        for places in sweeps.values():
            began = time.perf_counter()
            chosen = [shapes[place] for place in places]
            parts = [[EvaluatedWindows.of(members) for members in lanes] for lanes in chosen]
            merged = self._swept(chosen, parts) if len(places) > 1 else [self._evaluated(chosen[0], parts[0])]
            each = (time.perf_counter() - began) / len(places)
            found |= zip(places, map(self._described, chosen, parts, merged, [each] * len(places)), strict=True)
        return [found[place] for place in range(len(shapes))]

    def sweep_of(self, lane: LaneKey, definition: Definition) -> Swept | None:
        """Return what a sweep merges for a query; None: its shape is merged by itself."""
        return sweep_of(self.synopsis.lanes[lane], self._kind(definition).finisher.typed.components)

    def asks_spark(self, definition: Definition) -> bool:
        """Tell whether Spark finishes a query's answers."""
        return not self._kind(definition).finisher.in_arrow

    def _swept(
        self, shapes: Sequence[Sequence[list[Due]]], parts: Sequence[Sequence[EvaluatedWindows]]
    ) -> list[Merged]:
        """Merge the windows of several shapes of one lane in one sweep."""
        key = shapes[0][0][0].lane
        asked = [
            AskedWindows(
                one.starts[one.chosen],
                one.ends[one.chosen],
                self._kind(members[0].definition).finisher.typed.components,
                not members[0].definition.query.grouped,
            )
            for (members,), (one,) in zip(shapes, parts, strict=True)
        ]
        ranks = self.synopsis.groups(key).ranks() if key.keys else None
        evaluate = partial(self.synopsis.merged, key, self.synopsis.lanes[key].evaluate, ranks=ranks)
        return merged_together(asked, evaluate)

    def _described(
        self, lanes: Sequence[list[Due]], parts: Sequence[EvaluatedWindows], merged: Merged, seconds: float
    ) -> MergedWindows:
        """Describe what was merged for all windows of a shape, with the subtotals of grouping sets."""
        began, windows = time.perf_counter(), EvaluatedWindows.joined(parts)
        kinds = [self._kind(one.definition) for members in lanes for one in members]
        typed = kinds[0].finisher.typed
        groups, sets = self.synopsis.groups(lanes[0][0].lane), None  # of several lanes, none has keys
        if typed.query.sets:
            sets = subtotals(typed.components, merged, groups, typed.query.sets)
            merged = sets.merged
        seconds += time.perf_counter() - began
        return MergedWindows(kinds, windows, merged, typed.components, groups, sets, seconds)

    def _evaluated(self, lanes: Sequence[list[Due]], parts: Sequence[EvaluatedWindows]) -> Merged:
        """Merge the partials of one lane, or of the columns of one bundle, for their due windows, equal ones once."""
        windows, wanted = EvaluatedWindows.joined(parts), self._kind(lanes[0][0].definition).finisher.typed.components
        starts, ends = windows.starts[windows.chosen], windows.ends[windows.chosen]
        key, merged, lane = lanes[0][0].lane, self.synopsis.merged, self.synopsis.lanes[lanes[0][0].lane]
        how: dict[str, Any] = {"keep_empty": not lanes[0][0].definition.query.grouped, "wanted": wanted}
        if isinstance(lane, ColumnLane):
            found = [self.synopsis.lanes[members[0].lane] for members in lanes]
            columns = [one.number for one in found if isinstance(one, ColumnLane)]
            asked = np.repeat(columns, [len(part.chosen) for part in parts])
            return merged(key, lane.bundle.evaluate, starts, ends, asked, **how)
        ranks = self.synopsis.groups(key).ranks() if key.keys else None
        return merged(key, lane.evaluate, starts, ends, ranks=ranks, **how)


def _by_the_clock(parts: Sequence[MergedWindows], passed: float) -> list[MergedWindows]:
    """Let what parts took add up to the time that passed at most: several threads worked on them at once."""
    share = min(1.0, passed / max(1e-9, sum(part.seconds for part in parts)))
    return [replace(part, seconds=part.seconds * share) for part in parts]


def _rows_of(part: MergedWindows) -> int:
    """Count the groups of all windows, those of a shared evaluation once for each query."""
    windows, evaluation = part.windows, part.merged.evaluation
    if len(windows.ends) == len(windows.chosen):
        return len(evaluation)
    return int(np.bincount(evaluation, minlength=len(windows.chosen))[windows.evaluation].sum())
