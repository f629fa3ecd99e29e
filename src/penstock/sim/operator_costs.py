"""Works out from a trace what operators with queues cost, and what each answer would take by itself.

Steps cost in a replay what they cost when they ran. What lies between two steps of a worker while something waits, and
between the last step of an answer and its commit, is the same for all.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.schedule.operator_queues import Path, Stage
from penstock.schedule.recorded_operators import OperatorRecording, RecordedOperatorStep, workers_at_once

CommitOf = tuple[int, str, int]  # run, stream and number of the commit that queued rows
LEAST_S: Final = 1e-9
LEAST_PASSED: Final = 1e-6


@dataclass(frozen=True, slots=True)
class QueuedAnswer:
    """What one query has answered of the rows of one commit."""

    commit: CommitOf
    query: int
    rows: int  # answered
    since_us: int
    due_us: int
    done_us: int


@dataclass(frozen=True, slots=True)
class OperatorCosts:
    """What a trace tells of the costs of operators."""

    slots: int  # workers that ran at once
    gap_us: float  # between two steps of a worker while something waited
    answer_us: float  # from the last step of an answer to its commit, while no batch was under way
    set_up_s: float  # of a step beside its function
    each: Mapping[str, float]  # seconds of a row, by operator
    paths: Mapping[int, Path]  # by query
    ideal: Mapping[tuple[CommitOf, int], float]  # seconds that a query's rows of a commit take by themselves
    holds: Mapping[tuple[int, str], tuple[list[int], list[int]]]  # by run and stream: when batches began, and ended

    @staticmethod
    def of(recording: OperatorRecording) -> OperatorCosts:
        """Work out the costs of a recording."""
        steps, holds = recording.steps, _holds(recording)
        each, set_up_s = _each(steps), statistics.median([one.set_up_s for one in steps] or [0.0])
        slots, gap_us = workers_at_once(steps), _gap_us(steps)
        answer_us = _answer_us(recording, holds)
        ideal: dict[tuple[CommitOf, int], float] = defaultdict(lambda: answer_us / 1e6)
        for one in steps:
            for query, wanted in zip(one.queries, one.wanted, strict=True):
                ideal[commit_of(one), query] += set_up_s + each[operator_of(one)] * wanted
        return OperatorCosts(slots, gap_us, answer_us, set_up_s, each, _paths(recording, each), dict(ideal), holds)

    def committed_us(self, stream: tuple[int, str], through_us: int) -> int:
        """Return when an answer is committed that is through at a time: not while a batch is under way."""
        began, ended = self.holds.get(stream, ([], []))
        place = bisect_right(began, through_us) - 1
        if place >= 0 and through_us < ended[place]:
            through_us = ended[place]
        return through_us + round(self.answer_us)


def commit_of(one: RecordedOperatorStep) -> CommitOf:
    """Name the commit that queued the rows of a step."""
    return one.run, one.stream, one.commit


def operator_of(one: RecordedOperatorStep) -> str:
    """Name the operator of a step; those of several streams are not the same."""
    return f"{one.stream}: {one.operator}"


def recorded_answers(recording: OperatorRecording) -> Iterator[QueuedAnswer]:
    """List what was answered, query by query."""
    for one in recording.answers:
        commit = one.run, one.stream, one.commit
        for query, rows, due_us in zip(one.queries, one.taken, one.dues_us, strict=True):
            yield QueuedAnswer(commit, query, rows, one.since_us, due_us, one.ended_us)


def _each(steps: Sequence[RecordedOperatorStep]) -> dict[str, float]:
    """Return the seconds that each operator takes for a row."""
    rows, seconds = defaultdict[str, int](int), defaultdict[str, float](float)
    for one in steps:
        rows[operator_of(one)] += one.rows
        seconds[operator_of(one)] += one.seconds
    return {name: max(LEAST_S, seconds[name] / max(1, rows[name])) for name in rows}


def _holds(recording: OperatorRecording) -> dict[tuple[int, str], tuple[list[int], list[int]]]:
    """Put the batches of each stream in order."""
    found = defaultdict[tuple[int, str], list[tuple[int, int]]](list)
    for run, stream, began_us, ended_us in recording.holds:
        found[run, stream].append((began_us, ended_us))
    return {key: ([b for b, _ in sorted(some)], [e for _, e in sorted(some)]) for key, some in found.items()}


def _gap_us(steps: Sequence[RecordedOperatorStep]) -> float:
    """Tell how long a worker paused between two steps while something waited."""
    free, gaps = list[int](), list[int]()
    for one in sorted(steps, key=lambda one: one.began_us):
        before = max((end for end in free if end <= one.began_us), default=None)
        if before is None:
            free.append(one.ended_us)
            continue
        free[free.index(before)] = one.ended_us
        if one.since_us <= before:
            gaps.append(one.began_us - before)
    return statistics.fmean(gaps) if gaps else 0.0


def _answer_us(recording: OperatorRecording, holds: Mapping[tuple[int, str], tuple[list[int], list[int]]]) -> float:
    """Return how long after the last of its steps an answer is committed, if no batch is under way."""
    last: dict[tuple[CommitOf, int], int] = {}
    for one in recording.steps:
        for query in one.queries:
            key = commit_of(one), query
            last[key] = max(last.get(key, 0), one.ended_us)
    found = []
    for answer in recorded_answers(recording):
        through_us = last.get((answer.commit, answer.query))
        if through_us is None:
            continue
        began, ended = holds.get(answer.commit[:2], ([], []))
        place = bisect_right(began, through_us) - 1
        if place < 0 or through_us >= ended[place]:
            found.append(max(0, answer.done_us - through_us))
    return statistics.median(found) if found else 0.0


def _paths(recording: OperatorRecording, each: Mapping[str, float]) -> dict[int, Path]:
    """Put the operators of each query in the order in which its rows pass them, with the part that goes on."""
    wanted: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    places: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    seen, weight = defaultdict[tuple[CommitOf, int, int], int](int), dict[int, float]()
    for one in recording.steps:
        for query, rows, priority in zip(one.queries, one.wanted, one.priorities, strict=True):
            at = commit_of(one), one.block, query
            wanted[query][operator_of(one)] += rows
            places[query][operator_of(one)].append(seen[at])
            seen[at], weight[query] = seen[at] + 1, priority
    taken = defaultdict[int, int](int)
    for answer in recorded_answers(recording):
        taken[answer.query] += answer.rows
    found: dict[int, Path] = {}
    for query, rows_by_name in wanted.items():
        names = sorted(rows_by_name, key=lambda name: statistics.fmean(places[query][name]))
        after = [*(rows_by_name[name] for name in names[1:]), taken[query]]
        stages = [
            Stage(name, each[name], min(1.0, max(LEAST_PASSED, rows / max(1, rows_by_name[name]))))
            for name, rows in zip(names, after, strict=True)
        ]
        found[query] = Path(query, tuple(stages), weight[query])
    return found
