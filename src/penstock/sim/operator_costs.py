"""Works out from a trace what operators with queues cost, and what each answer would take by itself.

Steps cost in a replay what they cost when they ran, the pause of the worker after it included; where nothing waited
then, the usual pause. An answer is committed as long after its last step as it was, or after the batch that was under
way.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.schedule.operator_queues import Path, Stage
from penstock.schedule.recorded_operators import OperatorRecording, RecordedOperatorStep, workers_at_once

CommitOf = tuple[int, str, int]  # run, stream and number of the commit that queued rows
Holds = Mapping[tuple[int, str], tuple[list[int], list[int]]]  # by run and stream: when batches began, and ended
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
    pauses_us: Sequence[float]  # of the worker after each step, by its place in the recording
    delays_us: Mapping[tuple[CommitOf, int], int]  # from when a query was through with a commit to its answer
    set_up_s: float  # of a step beside its function
    each: Mapping[str, float]  # seconds of a row, by operator
    paths: Mapping[int, Path]  # by query
    ideal: Mapping[tuple[CommitOf, int], float]  # seconds that a query's rows of a commit take by themselves
    holds: Holds

    @property
    def pause_s(self) -> float:
        """Return how long a worker paused between two steps, on average."""
        return statistics.fmean(self.pauses_us) / 1e6 if self.pauses_us else 0.0

    @staticmethod
    def of(recording: OperatorRecording) -> OperatorCosts:
        """Work out the costs of a recording."""
        steps, holds = recording.steps, _holds(recording)
        each, set_up_s = _each(steps), statistics.median([one.set_up_s for one in steps] or [0.0])
        slots, pauses, delays = workers_at_once(steps), _pauses_us(steps), _delays_us(recording, holds)
        answer_s = float(np.quantile(list(delays.values()), 0.25)) / 1e6 if delays else 0.0
        ideal: dict[tuple[CommitOf, int], float] = defaultdict(lambda: answer_s)
        for one in steps:
            for query, wanted in zip(one.queries, one.wanted, strict=True):
                ideal[commit_of(one), query] += set_up_s + each[operator_of(one)] * wanted
        return OperatorCosts(slots, pauses, delays, set_up_s, each, _paths(recording, each), dict(ideal), holds)

    def committed_us(self, commit: CommitOf, query: int, through_us: int) -> int:
        """Return when an answer is committed that is through at a time: not while a batch is under way."""
        return _free_us(self.holds, commit[:2], through_us) + self.delays_us.get((commit, query), 0)


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


def _holds(recording: OperatorRecording) -> Holds:
    """Put the batches of each stream in order."""
    found = defaultdict[tuple[int, str], list[tuple[int, int]]](list)
    for run, stream, began_us, ended_us in recording.holds:
        found[run, stream].append((began_us, ended_us))
    return {key: ([b for b, _ in sorted(some)], [e for _, e in sorted(some)]) for key, some in found.items()}


def _pauses_us(steps: Sequence[RecordedOperatorStep]) -> list[float]:
    """Tell how long a worker paused after each step, if something waited; the usual pause otherwise."""
    known, last = dict[int, float](), list[int]()  # the last step of each worker
    for place in sorted(range(len(steps)), key=lambda place: steps[place].began_us):
        one = steps[place]
        free = (other for other in last if steps[other].ended_us <= one.began_us)
        before = max(free, key=lambda other: steps[other].ended_us, default=None)
        if before is None:
            last.append(place)
            continue
        last[last.index(before)] = place
        if one.since_us <= steps[before].ended_us:
            known[before] = one.began_us - steps[before].ended_us
    usual = statistics.median(known.values()) if known else 0.0
    return [known.get(place, usual) for place in range(len(steps))]


def _free_us(holds: Holds, stream: tuple[int, str], when_us: int) -> int:
    """Return when no batch of a stream is under way any more."""
    began, ended = holds.get(stream, ([], []))
    place = bisect_right(began, when_us) - 1
    return ended[place] if place >= 0 and when_us < ended[place] else when_us


def _delays_us(recording: OperatorRecording, holds: Holds) -> dict[tuple[CommitOf, int], int]:
    """Return how long after a query was through with a commit, and no batch was under way, it was answered."""
    last: dict[tuple[CommitOf, int], int] = {}
    for one in recording.steps:
        for query in one.queries:
            key = commit_of(one), query
            last[key] = max(last.get(key, 0), one.ended_us)
    through, found = dict[tuple[int, str, int], int](), dict[tuple[CommitOf, int], int]()
    for answer in sorted(recorded_answers(recording), key=lambda one: one.commit):
        if (ended_us := last.get((answer.commit, answer.query))) is not None:
            of_query = *answer.commit[:2], answer.query
            through[of_query] = max(ended_us, through.get(of_query, 0))  # a query answers its commits in order
            free_us = _free_us(holds, answer.commit[:2], through[of_query])
            found[answer.commit, answer.query] = max(0, answer.done_us - free_us)
    return found


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
