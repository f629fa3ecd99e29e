"""Runs a scenario of the simulator through what the live engine chooses by, one tuple at a time, by a clock of its own.

A query of the scenario is a query of the engine, a tuple is a window of it, and what waits of a query is one item: so
it is on the desk. The engine's items have no operators inside. A query of several operators is seen as one step here,
with the selectivity and the mean cost of all of it, and its tuples are all kept, so that it takes its ideal time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.due import EndRuns
from penstock.kernel.pending import Pending
from penstock.schedule.ordering import ordered
from penstock.schedule.policy import Head, Heads, Policy
from penstock.sim.arrivals import Arrivals
from penstock.sim.network import SimQuery
from penstock.stream.evaluation_order import EvaluationItem, EvaluationOrder
from tests.stream.made import definition

Choice = tuple[int, int]  # a query and a tuple


@dataclass
class Waiting:
    """A query with its tuples that wait, by number and time."""

    number: int
    query: SimQuery
    tuples: deque[tuple[int, float]] = field(default_factory=deque)

    @property
    def selectivity(self) -> float:
        passed = 1.0
        for operator in self.query.operators:
            passed *= operator.selectivity
        return passed

    @property
    def cost(self) -> float:
        passed, cost = 1.0, 0.0
        for operator in self.query.operators:
            cost, passed = cost + passed * operator.cost, passed * operator.selectivity
        return cost

    @property
    def ideal(self) -> float:
        return sum(operator.cost for operator in self.query.operators)

    @property
    def due(self) -> float:
        return self.tuples[0][1] + self.query.latency

    def head(self, now: float) -> Head:
        facts = self.selectivity, self.cost, self.ideal, self.query.weight, len(self.tuples) * self.cost
        return Head(*facts, self.tuples[0][1], float(len(self.tuples)), self.due, now)


Choose = Callable[[Sequence[Waiting], float], int]  # the place of what runs next


def choices(queries: Sequence[SimQuery], arrivals: Arrivals, choose: Choose) -> Iterator[tuple[Choice, float]]:
    """Run one tuple after the other as somebody chooses; give each choice, and when it was done."""
    waiting = [Waiting(number, query) for number, query in enumerate(queries)]
    coming = deque(enumerate(zip(arrivals.time.tolist(), arrivals.stream.tolist(), strict=True)))
    now = 0.0
    while coming or any(one.tuples for one in waiting):
        if not any(one.tuples for one in waiting):
            now = max(now, coming[0][1][0])
        while coming and coming[0][1][0] <= now:
            number, (time, stream) = coming.popleft()
            for one in waiting:
                if one.query.stream == stream:
                    one.tuples.append((number, time))
        ready = [one for one in waiting if one.tuples]
        chosen = ready[choose(ready, now)]
        now += chosen.ideal
        yield (chosen.number, chosen.tuples.popleft()[0]), now


def by_ordering(policy: Policy) -> Choose:
    """Choose as ``schedule/ordering.py`` orders; the query after the last one has its turn."""
    last = -1

    def choose(ready: Sequence[Waiting], now: float) -> int:
        nonlocal last
        turn = next((place for place, one in enumerate(ready) if one.number > last), 0)
        place = next(ordered(policy, Heads.of([one.head(now) for one in ready]), turn))
        last = ready[place].number
        return place

    return choose


def by_desk(policy: Policy) -> Choose:
    """Choose as the desk does, which puts one group of items after the other by the clock."""
    clock_us = 0
    order = EvaluationOrder(cast(Any, None), lambda: policy, lambda: clock_us)  # nothing is answered, so none answers

    def choose(ready: Sequence[Waiting], now: float) -> int:
        nonlocal clock_us
        clock_us = round(now * 1e6)
        return order.first([item_of(one) for one in ready])[0]

    return choose


def item_of(one: Waiting) -> EvaluationItem:
    """Describe a query with what waits of it as the engine does."""
    ends = EndRuns.between(1, len(one.tuples), 1)
    due_us = round(min(one.due, 1e12) * 1e6)
    members = (Pending(_definition(one.number), cast(Any, None), ends),)
    return EvaluationItem(members, len(one.tuples) * one.cost, one.query.weight, round(one.tuples[0][1] * 1e6), due_us)


@cache
def _definition(number: int) -> Definition:
    return definition("SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]", number + 1, f"q{number}")
