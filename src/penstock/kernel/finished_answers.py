"""Finishes the merged evaluations of all lanes that have one shape together, and writes their answers as tables.

Steps of Arrow are few for a shape, however many lanes it has. Only where a window fails, its shape is finished once
more, lane by lane, so that each query is told what failed in its own lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa

from penstock.evaluate.arranged_rows import arranged_rows
from penstock.evaluate.components.frequency_tables import join_lazily
from penstock.evaluate.components.numbers import Component, Values
from penstock.evaluate.finishing import INSTANT, AskSpark, Finished, Finisher
from penstock.evaluate.groups import Groups
from penstock.evaluate.subtotals import Subtotals
from penstock.evaluate.windows.partials import Merged
from penstock.kernel.defects import Defect
from penstock.kernel.due_evaluations import EvaluatedWindows
from penstock.kernel.revisions import first_revision, with_keys
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.instants import format_instant
from penstock.store.answers import DEFINITION

_Called = tuple[tuple[str, ...], bool, bool]  # names of outputs, revised, with groups


@dataclass(frozen=True, slots=True)
class Failure:
    """A window that could not be answered."""

    definition: int
    window_end_us: int
    reason: str
    defect: Defect | None = None  # of Penstock; None: of the query's expressions, or of its rows


@dataclass(frozen=True, slots=True)
class AnswerKind:
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
class MergedWindows:
    """The due windows of one shape and one lane, or of the columns of one bundle, with what was merged for them."""

    kinds: list[AnswerKind]  # of each due query
    windows: EvaluatedWindows
    merged: Merged
    components: tuple[Component, ...]
    groups: Groups
    sets: Subtotals | None  # of a query with grouping sets
    seconds: float = 0.0  # that merging took


@dataclass(slots=True)
class _Work:
    """The due windows of one shape on their way to answers; rows are in order of their evaluations."""

    kinds: list[AnswerKind]
    finisher: Finisher
    windows: EvaluatedWindows
    evaluation: Int64Array  # of each row
    inputs: pa.Table
    overflow: BoolArray  # rows that some aggregate has no answer for
    reason: str | None  # why the first of them has none
    finished: Finished | None = None
    lanes: Sequence[MergedWindows] = field(default=())  # that it was made of

    @property
    def fails(self) -> bool:
        """Tell whether some row has no answer."""
        return self.finished is not None and bool(self.overflow.any() or self.finished.failed.any())


def finished_answers(parts: Sequence[MergedWindows], ask_spark: AskSpark) -> tuple[list[pa.Table], list[Failure]]:
    """Finish what was merged, shape by shape; windows that fail are left out and reported."""
    by_shape: dict[int, dict[int, list[MergedWindows]]] = {}  # then by who numbers groups
    for part in parts:
        by_shape.setdefault(part.kinds[0].number, {}).setdefault(id(part.groups), []).append(part)
    works = [_work([part for some in by_groups.values() for part in some]) for by_groups in by_shape.values()]
    _finish(works, ask_spark)
    apart = [_work([lane]) for work in works if work.fails and len(work.lanes) > 1 for lane in work.lanes]
    if apart:
        _finish(apart, ask_spark)
        works = [work for work in works if not work.fails or len(work.lanes) == 1] + apart
    return _tables(works), [failure for work in works for failure in _failures(work)]


def _work(parts: Sequence[MergedWindows]) -> _Work:
    """Put what was merged for the lanes of a shape together, and lower its aggregates."""
    finisher, windows = parts[0].kinds[0].finisher, EvaluatedWindows.joined([part.windows for part in parts])
    first = np.cumsum([0, *(len(part.windows.chosen) for part in parts)])
    evaluation = np.concatenate([part.merged.evaluation + at for part, at in zip(parts, first, strict=False)])
    columns = [dict(zip(part.components, part.merged.values, strict=True)) for part in parts]
    values = {component: _joined([each[component] for each in columns]) for component in parts[0].components}
    chosen = windows.chosen[evaluation]
    within = [part.sets.sets for part in parts if part.sets is not None]
    sets = np.concatenate(within) if within else None
    inputs = finisher.inputs(_keys(parts), values, (windows.starts[chosen], windows.ends[chosen]), sets)
    return _Work([kind for part in parts for kind in part.kinds], finisher, windows, evaluation, *inputs, lanes=parts)


def _joined(parts: Sequence[Values]) -> Values:
    """Put the values of one component, of several lanes, one after the other."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], tuple):
        return tuple(join_lazily(planes) for planes in zip(*parts, strict=True))
    return join_lazily(parts)


def _keys(parts: Sequence[MergedWindows]) -> list[pa.Array]:
    """Return the keys of all rows; those of lanes that number groups alike, which are neighbours, are read at once."""
    if parts[0].sets is not None:
        each = [part.sets.keys for part in parts if part.sets is not None]
        return [pa.concat_arrays(columns) for columns in zip(*each, strict=True)]
    found: list[list[pa.Array]] = [[] for _ in parts[0].groups.types]
    for _, some in groupby(parts, key=lambda part: id(part.groups)):
        lanes = list(some)
        numbers = np.concatenate([lane.merged.group for lane in lanes])
        for place, arrays in enumerate(found):
            arrays.append(lanes[0].groups.keys(place, numbers))
    return [pa.concat_arrays(arrays) for arrays in found]


def _finish(works: Sequence[_Work], ask_spark: AskSpark) -> None:
    """Finish in Arrow what can be, the rest in one Spark job."""
    asked = [w for w in works if not w.finisher.in_arrow and w.inputs.num_rows]
    for work in works:
        if work.finisher.in_arrow:
            work.finished = work.finisher.finish(work.inputs)
    if asked:
        answers = ask_spark([w.finisher.request(w.inputs) for w in asked])
        for work, finished in zip(asked, answers, strict=True):
            work.finished = finished


def _failed_rows(work: _Work, finished: Finished) -> BoolArray:
    """Tell the rows that are not answered: an expression fails on them, or on another row of their evaluation."""
    failed = finished.failed | work.overflow
    return np.isin(work.evaluation, work.evaluation[failed]) if failed.any() else failed


def _failures(work: _Work) -> list[Failure]:
    """List the windows of a piece of work that cannot be answered, for every query on its own."""
    if work.finished is None or not work.fails:
        return []
    reasons: dict[int, str] = {}
    for row in np.flatnonzero(work.finished.failed | work.overflow):
        reason = (work.reason if work.overflow[row] else work.finished.reason) or "failed"
        reasons.setdefault(int(work.evaluation[row]), work.finisher.spelled(reason))
    windows, found = work.windows, []
    for window in np.flatnonzero(np.isin(windows.evaluation, list(reasons))):
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
    query = work.finisher.typed.query
    if query.arranges_rows:
        kept = arranged_rows(query, work.finished.table, work.evaluation, kept)
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
    if len(positions) == len(windows.firsts) - 1 and len(windows.ends) == len(windows.chosen):
        mine, lengths, rows = np.arange(len(held)), held, kept  # every window has an evaluation of its own, in order
    else:
        mine = windows.of_queries(positions)
        evaluation = windows.evaluation[mine]
        lengths = held[evaluation]
        skipped = (np.cumsum(held) - held)[evaluation] - (np.cumsum(lengths) - lengths)
        rows = kept[np.arange(int(lengths.sum())) + np.repeat(skipped, lengths)]
    query = work.finisher.typed.query
    told_by = [f"k{i}" for i in range(len(query.keys))] + (["g"] if query.sets else [])  # a subtotal is no NULL group
    keys = [work.inputs[name] for name in told_by] if grouped else []
    held_columns = [*finished.table.columns, *keys]
    whole = pa.table(held_columns, [str(i) for i in range(len(held_columns))])
    if len(rows) != whole.num_rows or bool((rows[1:] != rows[:-1] + 1).any()):
        whole = whole.take(pa.array(rows))
    described = [np.repeat(column[mine], lengths) for column in (windows.definitions, windows.starts, windows.ends)]
    columns = [pa.array(described[0]), *(pa.array(times).view(INSTANT) for times in described[1:])]
    outputs, keys = whole.columns[: len(names)], whole.columns[finished.table.num_columns :]
    table = pa.table([*columns, *outputs], [DEFINITION, "window_start", "window_end", *names])
    return first_revision(table, keys) if revised else with_keys(table, keys)
