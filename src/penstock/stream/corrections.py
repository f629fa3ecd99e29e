"""Computes the answers that late rows change, and only those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.finishing import INSTANT
from penstock.evaluate.groups import Groups
from penstock.evaluate.typed import Definition
from penstock.kernel.answering import Answering, Due, Failure
from penstock.kernel.defect_bisection import answer_apart
from penstock.kernel.defects import defect_of
from penstock.kernel.revisions import Place, Revisions, group_numbers, is_revised
from penstock.kernel.synopsis import Synopsis
from penstock.model.arrays import Int64Array
from penstock.share.layout import Layout
from penstock.share.plan import LaneKey
from penstock.store.answers import DEFINITION, AnswerLog, answers_of
from penstock.stream.progress import Progress

_NO_ANSWERS = pa.table({"window_end": pa.array([], INSTANT)})
MOST_PLACES: Final = 100_000  # windows by groups that are computed anew at a time
Touched = Mapping[LaneKey, tuple[Int64Array, Int64Array]]  # lane → slices and groups that late rows fell into


LateRows = tuple[Touched, int | None]  # where a batch's late rows fell, and the watermark that they were late by
NO_LATE_ROWS: Final[LateRows] = ({}, None)


class Corrections:
    """Computes anew what late rows touched in windows that are final, while these may still be revised."""

    def __init__(self, synopsis: Synopsis, progress: Progress, answering: Answering) -> None:
        """Remember nothing yet."""
        self.synopsis, self.progress, self.answering = synopsis, progress, answering
        self.revisions = Revisions()

    def revised(
        self, layout: Layout, touched: Touched, judged_us: int | None
    ) -> Iterator[tuple[list[pa.Table], list[Failure]]]:
        """Return the answers that late rows changed, in pieces; ``judged_us`` is the watermark they were late by."""
        found, failures, number = list[pa.Table](), list[Failure](), 0
        for definition, key in _revised_lanes(layout) if touched and judged_us is not None else ():
            if key not in touched or judged_us is None:
                continue
            try:
                for places in self._places(definition, *touched[key], judged_us):
                    if number + len(places) > MOST_PLACES and number:
                        yield found, failures
                        found, failures, number = [], [], 0
                    tables, failed = self._again(definition, key, places)
                    found, failures, number = found + tables, failures + failed, number + len(places)
            except Exception as error:
                defect = defect_of(error, "late rows revised its answers")
                failures = [*failures, Failure(definition.id, judged_us, defect.reason, defect)]
        if found or failures:
            yield found, failures

    def _places(
        self, definition: Definition, labels: Int64Array, groups: Int64Array, judged_us: int
    ) -> Iterator[dict[Place, None]]:
        """List the windows and groups that hold touched slices, are final, and may be revised, some at a time."""
        window, since = definition.query.window, self.progress.windows.revised_from(definition)
        revised = window.end_at_or_after(max(since, window.end_after(judged_us - definition.typed.revise_us)))
        slices = sorted(set(zip(labels.tolist(), groups.tolist(), strict=True)))
        last = min(judged_us, self.progress.windows.last_own_end(definition))
        spans = [(max(window.end_after(s), revised), min(last, s + window.length), g) for s, g in slices]
        spans = [span for span in spans if span[0] <= span[1]]
        step_us = max(1, MOST_PLACES // max(1, len(spans))) * window.slide  # so many windows at a time
        begin = min((first for first, _, _ in spans), default=0)
        while spans:
            places = {
                (end, group): None
                for first, last, group in spans
                for end in range(max(first, begin), min(last, begin + step_us - 1) + 1, window.slide)
            }
            yield places
            spans = [span for span in spans if span[1] >= begin + step_us]
            begin = max(begin + step_us, min((first for first, _, _ in spans), default=0))

    def _again(
        self, definition: Definition, key: LaneKey, places: dict[Place, None]
    ) -> tuple[list[pa.Table], list[Failure]]:
        """Compute some windows of a query anew, and keep what changed of the touched groups."""
        ends = np.array(sorted({end for end, _ in places}), np.int64)
        tables, failures = answer_apart(self.answering, [Due(definition, key, ends)])
        if any(failure.defect is not None for failure in failures):
            return [], failures
        failed = {f.window_end_us for f in failures}
        asked = [place for place in places if place[0] not in failed]
        answers = tables[0] if tables else _NO_ANSWERS
        numbers = group_numbers(answers, self.synopsis.groups(key)) if tables else np.empty(0, np.int64)
        others = self._others(definition, answers, numbers, asked) if definition.query.chooses_rows else []
        return self.revisions.changed(definition.id, answers, numbers, asked, others), failures

    def _others(
        self, definition: Definition, answers: pa.Table, numbers: Int64Array, asked: Sequence[Place]
    ) -> list[Place]:
        """List the groups of the same windows that late rows did not touch: others may take their places, or leave."""
        ends = {end for end, _ in asked}
        computed = zip(answers["window_end"].cast(pa.int64()).to_pylist(), numbers.tolist(), strict=True)
        said = self.revisions.standing(definition.id, sorted(ends))
        places = dict.fromkeys([*(place for place in computed if place[0] in ends), *said])
        touched = set(asked)
        return [place for place in places if place not in touched]

    def note(self, layout: Layout, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """Remember what was answered; return the answers."""
        groups = self._groups(layout) if layout.revising else {}
        for table in tables if groups else ():
            if is_revised(table):
                self.revisions.note(table, groups)
        return list(tables)

    def forget(self, layout: Layout) -> None:
        """Forget windows that are revised no more; to be called when a step has revised what its late rows changed."""
        watermark = self.progress.clock.watermark_us
        if watermark is not None:
            self.revisions.forget({d.id: watermark - d.typed.revise_us for d, _ in _revised_lanes(layout)})

    def restore(self, layout: Layout, log: AnswerLog, definition: Definition, judged_us: int | None) -> None:
        """Remember what the answer log says of a query's windows that could be revised at a watermark."""
        if definition.typed.revise_us:
            after = None if judged_us is None else judged_us - definition.typed.revise_us
            answers = [_ending_after(table, after) for table in answers_of(log, [definition.id])]
            self.note(layout, [_numbered(table, definition.id) for table in answers])

    @staticmethod
    def groupings(layout: Layout | None) -> set[tuple[str, tuple[str, ...]]]:
        """Return the groupings whose groups are remembered here by number."""
        return set() if layout is None else {(key.tree, key.keys) for _, key in _revised_lanes(layout)}

    def _groups(self, layout: Layout) -> dict[int, Groups]:
        """Return what numbers the groups of each query whose answers are revised."""
        return {d.id: self.synopsis.groups(key) for d, key in _revised_lanes(layout)}


def _ending_after(answers: pa.Table, end_us: int | None) -> pa.Table:
    """Keep the answers of windows that end after an instant; None: all."""
    return answers if end_us is None else answers.filter(pc.greater(answers["window_end"].cast(pa.int64()), end_us))


def _numbered(answers: pa.Table, definition: int) -> pa.Table:
    """Put a definition's number before its answers."""
    return answers.add_column(0, DEFINITION, pa.array(np.full(answers.num_rows, definition, np.int64)))


def _revised_lanes(layout: Layout) -> list[tuple[Definition, LaneKey]]:
    """List the queries whose answers late rows revise, with their lanes."""
    return [
        (definition, tree.lane_key(definition))
        for tree in layout.plan.trees
        for definition in tree.definitions
        if definition.typed.revise_us
    ]
