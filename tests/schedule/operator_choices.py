"""Runs a scenario of the simulator through what the queues of operators choose by, a tuple on an operator at a time.

A tuple is a block of one row, a query of the scenario a path of operators of its own, and a step takes what the
operator costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.schedule.flushing import DueWork, flush_limit
from penstock.schedule.operator_queues import Path, PathFigures, QueueHead, Stage, WaitingQuery, next_queue
from penstock.schedule.policy import Manner, Policy
from penstock.sim.arrivals import Arrivals
from penstock.sim.network import SimQuery

Answer = tuple[int, int, float]  # a query, a tuple, and when it was done


@dataclass
class Queue:
    """An operator of a query, and the tuples that wait for it, by number and time."""

    query: int
    place: int
    name: str
    tuples: deque[tuple[int, float]] = field(default_factory=deque)


@dataclass
class LiveQueues:
    """The queues of a scenario, and what they know."""

    queries: Sequence[SimQuery]
    policy: Policy

    def __post_init__(self) -> None:
        self.queues = [Queue(n, k, f"o{n}.{k}") for n, q in enumerate(self.queries) for k in range(len(q.operators))]
        paths = [
            Path(n, tuple(Stage(f"o{n}.{k}", o.cost, o.selectivity) for k, o in enumerate(q.operators)))
            for n, q in enumerate(self.queries)
        ]
        self.figures, self.last = PathFigures(paths, self.policy), -1

    def choose(self, now: float) -> Queue | None:
        """Choose as the live queues do."""
        latest = np.inf
        if self.policy.manner == Manner.FLUSH:
            latest = flush_limit([w for q in self.queues for w in self._left(q)], now)
        ready = [q for q in self.queues if q.tuples and self._due(q, q.tuples[0][1]) <= latest]
        if not ready:
            return None
        found = ready[next_queue(self.figures, [self._head(q) for q in ready], now, self.last)]
        self.last = found.query
        return found

    def _due(self, queue: Queue, arrival: float) -> float:
        return arrival + self.queries[queue.query].latency

    def _head(self, queue: Queue) -> QueueHead:
        arrival = queue.tuples[0][1]
        return QueueHead(queue.name, arrival, 1.0, (WaitingQuery(queue.query, 1, self._due(queue, arrival)),))

    def _left(self, queue: Queue) -> list[DueWork]:
        work = sum(rows * cost for _, rows, cost in self.figures.ahead(queue.query, queue.name, 1.0))
        return [DueWork(self._due(queue, time), work) for _, time in queue.tuples]


def answers(queries: Sequence[SimQuery], arrivals: Arrivals, values: np.ndarray, policy: Policy) -> list[Answer]:
    """Run one tuple on one operator after the other; list what comes through."""
    live, found, now = LiveQueues(queries, policy), list[Answer](), 0.0
    coming = deque(enumerate(zip(arrivals.time.tolist(), arrivals.stream.tolist(), strict=True)))
    while True:
        while coming and coming[0][1][0] <= now:
            number, (time, stream) = coming.popleft()
            for queue in live.queues:
                if queue.place == 0 and queries[queue.query].stream == stream:
                    queue.tuples.append((number, time))
        chosen = live.choose(now)
        if chosen is None:
            if not coming:
                return found
            now = coming[0][1][0]
            continue
        number, time = chosen.tuples.popleft()
        operator = queries[chosen.query].operators[chosen.place]
        now += operator.cost
        if values[number, operator.attribute] > operator.selectivity:
            continue
        if chosen.place + 1 == len(queries[chosen.query].operators):
            found.append((chosen.query, number, now))
        else:
            live.queues[live.queues.index(chosen) + 1].tuples.append((number, time))
