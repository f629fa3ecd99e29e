"""Chooses the queue of an operator whose head runs next, with the policies of the simulator and measured costs.

Each query is a path of operators, in the order in which its conjuncts are looked at: by rank, (selectivity − 1) by
cost. Segments, progress charts and priorities are those of :mod:`penstock.schedule.segments` and of the policies. An
operator that several queries wait for counts as their priority-defining tree (Sharaf 2007, §3.6) where policies are
rates, and as the best of them otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.errors import ProjectError, Unsupported, nearest
from penstock.schedule.ordering import ordered
from penstock.schedule.policy import Head, Heads, Manner, Policy
from penstock.schedule.registry import POLICIES, policy_named
from penstock.schedule.segments import ROOT, Segments, summed
from penstock.schedule.sharing import Segment, Strategy, shared

DEFAULT_OPERATOR_POLICY: Final = "FCFS"
BY_BYTES: Final = frozenset({"Chain", "Chain-Flush", "Greedy", "Mixed"})
RATES: Final = {"HR": 0, "RB": 0, "BRT": 0, "HNR": 1, "BSD": 2}  # by which power of the ideal time they divide
UNBOUNDED: Final = 1e30
LEAST_S: Final = 1e-9  # that anything takes,
LEAST_PART: Final = 1e-4  # and of the dearest operator on its path
LEAST_LEFT: Final = 1e-6  # of the rows at the end of a path, so that time goes on in its chart


@dataclass(frozen=True, slots=True)
class Stage:
    """One operator on the path of a query, with its estimates."""

    operator: str
    cost: float  # seconds a row
    passed: float  # rows out for one in


@dataclass(frozen=True, slots=True)
class Path:
    """The operators of one query, in the order in which rows pass them."""

    query: int
    stages: tuple[Stage, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class WaitingQuery:
    """A query that waits for an operator, with what waits for it."""

    query: int
    rows: int
    due: float


@dataclass(frozen=True, slots=True)
class QueueHead:
    """What stands at the head of an operator's queue, and who waits for it."""

    operator: str
    arrival: float
    row_bytes: float
    waiting: tuple[WaitingQuery, ...]


def rank(selectivity: float, cost: float) -> float:
    """Return by what conjuncts are put in order, the least first: they rule out most for their time."""
    return (selectivity - 1.0) / max(cost, LEAST_S)


def _bounded(path: Path) -> list[tuple[float, float]]:
    """Return costs and selectivities of a path that differ from each other by no more than arithmetic can tell."""
    least = max(LEAST_S, LEAST_PART * max(stage.cost for stage in path.stages))
    found, left = list[tuple[float, float]](), 1.0
    for stage in path.stages:
        passed = max(stage.passed, LEAST_LEFT / left)
        found.append((max(stage.cost, least), min(passed, 1.0)))
        left *= found[-1][1]
    return found


class PathFigures:
    """What policies know of all paths, worked out once for many choices."""

    def __init__(self, paths: Sequence[Path], policy: Policy) -> None:
        """Lay the paths out as segments."""
        self.policy = policy
        keys = ((path.query, stage.operator) for path in paths for stage in path.stages)
        self.places = {key: place for place, key in enumerate(keys)}
        self._operators = [operator for _, operator in self.places]
        bounded = [one for path in paths for one in _bounded(path)]
        cost, passed = np.array([c for c, _ in bounded]), np.array([p for _, p in bounded])
        after, weight = np.full(len(cost), ROOT, np.int64), np.ones(len(cost))
        query, ideal, at = np.zeros(len(cost), np.int64), np.zeros(len(cost)), 0
        for path in paths:
            last = at + len(path.stages)
            after[at : last - 1] = np.arange(at + 1, last)
            weight[at:last], query[at:last], ideal[at:last] = path.weight, path.query, cost[at:last].sum()
            at = last
        selectivity, mean_cost, remaining = summed(cost, passed, after)
        none = np.zeros(len(cost))
        bound = np.full(len(cost), UNBOUNDED)
        told = cost, passed, after, query, ideal, weight, mean_cost, selectivity, remaining, bound, none
        self.segments = Segments(*told)
        self.extra = policy.extra(self.segments)

    def head(self, queue: QueueHead, now: float) -> Head:
        """Describe the head of a queue as the policy sees it."""
        found = [self._of(queue, one, now) for one in queue.waiting]
        if len(found) == 1:
            return found[0]
        name = self.policy.name.partition("(")[0]
        if name in RATES:
            return self._together(queue, found, RATES[name])
        priorities = [self.policy.priority(one) for one in found]
        return found[int(np.argmax(priorities))]

    def _of(self, queue: QueueHead, one: WaitingQuery, now: float) -> Head:
        """Describe what waits of one query."""
        place, known = self.places[one.query, queue.operator], self.segments
        weight = float(known.weight[place])
        if self.policy.name.partition("(")[0] in BY_BYTES:  # what is freed counts, whoever it is for
            weight = max(queue.row_bytes, 1.0)
        own = float(known.selectivity[place]), float(known.mean_cost[place]), float(known.ideal[place])
        rows = float(max(one.rows, 1))
        extra = own[1] * rows if self.policy.manner == Manner.HYBRID else float(self.extra[place])
        return Head(*own, weight, extra, queue.arrival, rows, one.due, now)

    def ahead(self, query: int, operator: str, rows: float) -> Iterator[tuple[str, float, float]]:
        """List the operators that rows of a query still have before them: how many come to each, and its cost a row."""
        place = self.places[query, operator]
        while place != ROOT:
            yield self._operators[place], rows, float(self.segments.cost[place])
            rows *= float(self.segments.passed[place])
            place = int(self.segments.after[place])

    def _together(self, queue: QueueHead, heads: Sequence[Head], power: int) -> Head:
        """Join the segments of all who wait, as long as that raises the priority."""
        segments = [Segment(h.weight * h.selectivity / h.ideal**power, h.cost) for h in heads]
        place = self.places[queue.waiting[0].query, queue.operator]
        joined = shared(segments, float(self.segments.cost[place]), Strategy.PDT)
        return heads[0]._replace(selectivity=joined.gain, cost=joined.mean_cost, ideal=1.0, weight=1.0)


def next_queue(figures: PathFigures, queues: Sequence[QueueHead], now: float, last: int = -1) -> int:
    """Choose the queue whose head runs next, by its place; ``last`` is the query that was served last."""
    queries = [min(one.query for one in queue.waiting) for queue in queues]
    return next_head(figures.policy, [figures.head(queue, now) for queue in queues], queries, last)


def next_head(policy: Policy, heads: Sequence[Head], queries: Sequence[int], last: int = -1) -> int:
    """Choose the head that runs next, by its place, of the queues of one stream or of several.

    ``queries`` has the first query that waits at each; ``last`` is the query that was served last.
    """
    if policy.manner == Manner.TURNS:
        order = sorted(range(len(heads)), key=lambda place: (queries[place], -heads[place].selectivity))
        return next((place for place in order if queries[place] > last), order[0])
    return next(ordered(policy, Heads.of(heads), prepared=policy.prepare is not None))


def is_for_operators(policy: Policy) -> bool:
    """Tell whether queues of operators can be run by a policy: those that know the future cannot.

    Blocks are few, so there is no need of Chain-Flush*, which looks at heads alone (Babcock et al. 2004, §5.2).
    """
    return not policy.oracle and policy.manner != Manner.FLUSH_HEADS


class OperatorPolicy:
    """The policy by which the queues of operators run; it may be changed while streams run."""

    def __init__(self, name: str = DEFAULT_OPERATOR_POLICY) -> None:
        """Begin with a policy."""
        self._policy = operator_policy_named(name)

    def current(self) -> Policy:
        """Return the policy that holds now."""
        return self._policy

    def change(self, name: str) -> None:
        """Choose by another policy from now on."""
        self._policy = operator_policy_named(name)


def operator_policy_named(name: str) -> Policy:
    """Find a policy that queues of operators can be run by."""
    known = [one for one, policy in POLICIES.items() if is_for_operators(policy)]
    detail = f"policies for operators: {', '.join(known)}"
    try:
        policy = policy_named(name)
    except ProjectError as error:
        raise ProjectError(error.what, detail=detail, hint=nearest(name, known)) from None
    if not is_for_operators(policy):
        reason = "knows the future" if policy.oracle else "looks at heads alone, where Chain-Flush looks at all blocks"
        what = f'queues of operators do not run by policy "{policy.name}": it {reason}'
        raise Unsupported(what, detail=detail, hint="penstock sim runs all policies.")
    return policy
