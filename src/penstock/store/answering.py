"""Due evaluations in, answer tables out: reads lanes, lets each shape finish together, asks Spark at most once."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.evaluate.finishing import INSTANT, AskSpark, Finished, Finisher, Shape
from penstock.evaluate.typed import Definition
from penstock.model.instants import format_instant
from penstock.share.plan import LaneKey
from penstock.store.answers import DEFINITION
from penstock.store.revisions import first_revision
from penstock.store.synopsis import Synopsis

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Due:
    """Windows of one query to be answered now, by their ends in order."""

    definition: Definition
    lane: LaneKey
    ends: Int64Array
    until_us: int = 0  # the time up to which they were listed


@dataclass(frozen=True, slots=True)
class Failure:
    """A window that could not be answered, because an expression over its aggregates failed."""

    definition: int
    window_end_us: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a query's windows are answered by."""

    number: int  # of the shape
    finisher: Finisher
    names: tuple[str, ...]  # of the outputs
    revised: bool  # late rows revise its answers, so these carry their revision and group


@dataclass(slots=True)
class _Work:
    """The due windows of one lane and shape, on their way to answers."""

    due: list[Due]
    kinds: list[_Kind]  # of each due query
    finisher: Finisher
    definition: Int64Array
    starts: Int64Array
    ends: Int64Array
    inputs: pa.Table
    overflow: BoolArray
    finished: Finished | None = None


class Answering:
    """Answers due evaluations from a synopsis; keeps compiled shapes between batches."""

    def __init__(self, synopsis: Synopsis, ask_spark: AskSpark) -> None:
        """Read from a synopsis; ``ask_spark`` finishes what is not listed."""
        self.synopsis = synopsis
        self.ask_spark = ask_spark
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
        by_work: dict[tuple[int, int], list[Due]] = {}
        for one in due:
            by_work.setdefault((id(one.lane), self._kind(one.definition).number), []).append(one)
        works = [self._merge(members[0].lane, members) for members in by_work.values()]
        self._finish(works)
        failures = [f for work in works for f in _failures(work)]
        failed = {(f.definition, f.window_end_us) for f in failures}
        return _tables(works, failed), failures

    def _kind(self, definition: Definition) -> _Kind:
        """Return what a query's windows are answered by: shapes are compared once a query, not once a window."""
        kind = self._kinds.get(definition.id)
        if kind is None:
            key = (Shape.of(definition.typed), definition.typed.key_types)
            if key not in self._finishers:
                self._finishers[key] = self._shapes, Finisher(definition.typed)
                self._shapes += 1
            names = tuple(output.name for output in definition.query.outputs)
            kind = self._kinds[definition.id] = _Kind(*self._finishers[key], names, definition.typed.revise_us > 0)
        return kind

    def _merge(self, lane_key: LaneKey, members: list[Due]) -> _Work:
        """Merge partials for all windows of a lane and shape at once."""
        lane = self.synopsis.lanes[lane_key]
        ends = np.concatenate([d.ends for d in members])
        ranges = np.repeat([d.definition.query.window.range_us for d in members], [len(d.ends) for d in members])
        ids = np.repeat([d.definition.id for d in members], [len(d.ends) for d in members])
        grouped = members[0].definition.query.grouped
        merged = lane.evaluate(ends - ranges, ends, keep_empty=not grouped)
        evaluation, group = merged.evaluation, merged.group
        finisher = self._kind(members[0].definition).finisher
        groups = self.synopsis.groups(lane_key)
        keys = [groups.keys(i, group) for i in range(len(lane_key.keys))]
        windows = ((ends - ranges)[evaluation], ends[evaluation])
        inputs, overflow = finisher.inputs(keys, dict(zip(lane.components, merged.values, strict=True)), windows)
        if lane_key.keys:
            order = np.lexsort((groups.ranks()[group], evaluation))
            evaluation, inputs, overflow = evaluation[order], inputs.take(pa.array(order)), overflow[order]
        starts = (ends - ranges)[evaluation]
        kinds = [self._kind(d.definition) for d in members]
        return _Work(members, kinds, finisher, ids[evaluation], starts, ends[evaluation], inputs, overflow)

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


def _failures(work: _Work) -> list[Failure]:
    """List the windows of a piece of work that cannot be answered."""
    if work.finished is None:
        return []
    failed = work.finished.failed | work.overflow
    if not failed.any():
        return []
    found: dict[tuple[int, int], Failure] = {}
    for row in np.flatnonzero(failed):
        key = (int(work.definition[row]), int(work.ends[row]))
        reason = "a sum does not fit its type" if work.overflow[row] else (work.finished.reason or "failed")
        ending = f", in the window that ends at {format_instant(key[1])} UTC"
        found.setdefault(key, Failure(*key, work.finisher.spelled(reason) + ending))
    return list(found.values())


def _tables(works: Sequence[_Work], failed: set[tuple[int, int]]) -> list[pa.Table]:
    """Put answers with the same columns into one table."""
    by_schema: dict[tuple[str, ...], list[pa.Table]] = {}
    for work in works:
        for names, table in _named(work, failed).items():
            by_schema.setdefault((*names, *map(str, table.schema.types)), []).append(table)
    return [pa.concat_tables(tables).combine_chunks() for tables in by_schema.values()]


def _named(work: _Work, failed: set[tuple[int, int]]) -> dict[tuple[str, ...], pa.Table]:
    """Give the finished columns the names their queries ask for, without what HAVING or a failure takes away."""
    if work.finished is None:
        return {}
    keep = work.finished.keep & ~work.finished.failed & ~work.overflow
    if failed:
        pairs = zip(work.definition.tolist(), work.ends.tolist(), strict=True)
        keep &= np.fromiter((pair not in failed for pair in pairs), np.bool_, len(keep))
    columns = [pa.array(work.definition), pa.array(work.starts).cast(INSTANT), pa.array(work.ends).cast(INSTANT)]
    by_names: dict[tuple[tuple[str, ...], bool], list[int]] = {}
    for one, kind in zip(work.due, work.kinds, strict=True):
        by_names.setdefault((kind.names, kind.revised), []).append(one.definition.id)
    tables = {}
    for (names, revised), ids in by_names.items():
        mask = keep if len(by_names) == 1 else keep & np.isin(work.definition, ids)
        whole = pa.table([*columns, *work.finished.table.columns], [DEFINITION, "window_start", "window_end", *names])
        if revised:
            keys = range(len(work.finisher.typed.query.keys))
            whole = first_revision(whole, [work.inputs[f"k{i}"] for i in keys])
        table = whole if mask.all() else whole.filter(pa.array(mask))
        if table.num_rows:
            tables[tuple(table.column_names)] = table
    return tables
