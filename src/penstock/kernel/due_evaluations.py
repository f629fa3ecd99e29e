"""Lists the due windows of queries, and the evaluations that answer them, equal windows of a lane once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.partials import distinct_pairs
from penstock.model.arrays import Int64Array
from penstock.share.plan import LaneKey


@dataclass(frozen=True, slots=True)
class Due:
    """Windows of one query to be answered now, by their ends in order."""

    definition: Definition
    lane: LaneKey
    ends: Int64Array
    starts: Int64Array | None = None  # of the windows, where their ends do not tell


@dataclass(frozen=True, slots=True)
class EvaluatedWindows:
    """The due windows of some queries, query by query, and the evaluations that answer them, each once."""

    definitions: Int64Array  # of each window
    starts: Int64Array
    ends: Int64Array
    evaluation: Int64Array  # that answers each window
    chosen: Int64Array  # for each evaluation, a window that it answers
    firsts: Int64Array  # the first window of each query, and how many there are

    @staticmethod
    def of(members: Sequence[Due]) -> EvaluatedWindows:
        """List the windows; those with the same start and end have the same evaluation."""
        if len(members) == 1:
            return _of_one(members[0])
        counts = [len(one.ends) for one in members]
        ends = np.concatenate([one.ends for one in members])
        if any(one.starts is not None for one in members):
            starts = np.concatenate([_starts(one) for one in members])
        else:
            starts = ends - np.repeat([one.definition.query.window.length for one in members], counts)
        definitions = np.repeat([one.definition.id for one in members], counts)
        return EvaluatedWindows(
            definitions, starts, ends, *distinct_pairs(ends, ends - starts), np.cumsum([0, *counts])
        )

    @staticmethod
    def joined(parts: Sequence[EvaluatedWindows]) -> EvaluatedWindows:
        """Put the windows of several lanes one after the other; what they evaluate is their own."""
        if len(parts) == 1:
            return parts[0]
        windows = np.cumsum([0, *(len(part.ends) for part in parts)])
        evaluations = np.cumsum([0, *(len(part.chosen) for part in parts)])
        queries = [len(part.firsts) - 1 for part in parts]
        moved = np.repeat(evaluations[:-1], np.diff(windows))
        return EvaluatedWindows(
            np.concatenate([part.definitions for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.ends for part in parts]),
            np.concatenate([part.evaluation for part in parts]) + moved,
            np.concatenate([part.chosen for part in parts]) + np.repeat(windows[:-1], np.diff(evaluations)),
            np.append(
                np.concatenate([part.firsts[:-1] for part in parts]) + np.repeat(windows[:-1], queries), windows[-1]
            ),
        )

    def of_queries(self, positions: Sequence[int]) -> Int64Array:
        """List the windows of some queries, given in ascending order."""
        if len(positions) == len(self.firsts) - 1:
            return np.arange(len(self.ends))
        return np.concatenate([np.arange(self.firsts[i], self.firsts[i + 1]) for i in positions])


def _of_one(due: Due) -> EvaluatedWindows:
    """List the windows of one query: they differ."""
    count = len(due.ends)
    every = np.arange(count)
    definitions = np.full(count, due.definition.id, np.int64)
    return EvaluatedWindows(definitions, _starts(due), due.ends, every, every, np.array([0, count], np.int64))


def _starts(due: Due) -> Int64Array:
    """Return the starts of due windows."""
    return due.ends - due.definition.query.window.length if due.starts is None else due.starts
