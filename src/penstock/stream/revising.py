"""Late rows in, the answers that they change out, and only those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.evaluate.finishing import INSTANT
from penstock.evaluate.groups import Groups
from penstock.evaluate.typed import Definition
from penstock.share.layout import Layout
from penstock.share.plan import LaneKey
from penstock.store.answering import Answering, Due, Failure
from penstock.store.answers import DEFINITION, AnswerLog, answers_of
from penstock.store.apart import answer_apart
from penstock.store.defects import defect_of
from penstock.store.revisions import Place, Revisions, group_numbers, is_revised
from penstock.store.synopsis import Synopsis
from penstock.stream.progress import Progress

Int64Array = npt.NDArray[np.int64]
_NO_ANSWERS = pa.table({"window_end": pa.array([], INSTANT)})
Touched = Mapping[LaneKey, tuple[Int64Array, Int64Array]]  # lane → slices and groups that late rows fell into


class Revising:
    """Computes anew what late rows touched in windows that are final, while these may still be revised."""

    def __init__(self, synopsis: Synopsis, progress: Progress, answering: Answering) -> None:
        """Remember nothing yet."""
        self.synopsis, self.progress, self.answering = synopsis, progress, answering
        self.revisions = Revisions()

    def corrections(
        self, layout: Layout, touched: Touched, judged_us: int | None
    ) -> tuple[list[pa.Table], list[Failure]]:
        """Return the answers that late rows changed; ``judged_us`` is the watermark that they were late by."""
        found: list[pa.Table] = []
        failures: list[Failure] = []
        for definition, key in _revised_lanes(layout) if touched and judged_us is not None else ():
            if key not in touched or judged_us is None:
                continue
            try:
                places = self._places(definition, *touched[key], judged_us)
                tables, failed = self._again(definition, key, places) if places else ([], [])
            except Exception as error:
                defect = defect_of(error, "late rows revised its answers")
                tables, failed = [], [Failure(definition.id, judged_us, defect.reason, defect)]
            found, failures = found + tables, failures + failed
        return found, failures

    def _places(
        self, definition: Definition, labels: Int64Array, groups: Int64Array, judged_us: int
    ) -> dict[Place, None]:
        """List the windows and groups that hold touched slices, are final, and may be revised."""
        window, since = definition.query.window, self.progress.revised_from(definition)
        first_revised = max(since, window.end_after(judged_us - definition.typed.revise_us))
        found: dict[Place, None] = {}
        for label, group in sorted(set(zip(labels.tolist(), groups.tolist(), strict=True))):
            first = max(window.end_after(label), window.end_at_or_after(first_revised))
            for end in range(first, min(judged_us, label + window.range_us) + 1, window.slide_us):
                found[end, group] = None
        return found

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
        return self.revisions.changed(definition.id, answers, numbers, asked), failures

    def note(self, layout: Layout, tables: Sequence[pa.Table]) -> list[pa.Table]:
        """Remember what was answered, and forget windows that are revised no more; return the answers."""
        if not layout.revising:
            return list(tables)
        groups = self._groups(layout)
        for table in tables:
            if is_revised(table):
                self.revisions.note(table, groups)
        watermark = self.progress.watermark_us
        if watermark is not None:
            horizons = {d.id: watermark - d.typed.revise_us for d, _ in _revised_lanes(layout)}
            self.revisions.forget(horizons)
        return list(tables)

    def restore(self, layout: Layout, log: AnswerLog, definition: Definition) -> None:
        """Remember what the answer log says of a query's windows that may still be revised."""
        if definition.typed.revise_us:
            numbered = [_numbered(table, definition.id) for table in answers_of(log, [definition.id])]
            self.note(layout, numbered)

    @staticmethod
    def groupings(layout: Layout | None) -> set[tuple[str, tuple[str, ...]]]:
        """Return the groupings whose groups are remembered here by number."""
        return set() if layout is None else {(key.tree, key.keys) for _, key in _revised_lanes(layout)}

    def _groups(self, layout: Layout) -> dict[int, Groups]:
        """Return what numbers the groups of each query whose answers are revised."""
        return {d.id: self.synopsis.groups(key) for d, key in _revised_lanes(layout)}


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
