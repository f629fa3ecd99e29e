"""The queues of operators take their steps in the order of the simulator, from the same scenarios.

What is left out: FAS-MCQ counts all tuples of a queue, which for blocks are the rows of the head; Hybrid counts what
waits of a query; RR here goes on with the query after the last, and in the simulator with the operator (``turns``).
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from penstock.schedule.flushing import DueWork, flush_limit
from penstock.schedule.policy import Policy
from penstock.schedule.registry import policy_named
from penstock.sim.arrivals import Arrivals
from penstock.sim.layout import Level, SimSettings
from penstock.sim.network import Operator, SimQuery, network
from penstock.sim.run import run
from tests.cases import cases
from tests.schedule.operator_choices import Answer, answers

LEVEL = SimSettings(level=Level.OPERATOR)
BY_OPERATOR = [
    policy_named(name)
    for name in (
        *("Chain", "Greedy", "Mixed(0.2)", "Mixed(0.6)", "Chain-Flush"),
        *("FIFO", "SRPT", "LSF", "HR", "HNR", "BRT", "BSD", "EDF"),
    )
]


def drawn(seed: int) -> tuple[list[SimQuery], Arrivals, np.ndarray]:
    """Draw chains of operators with bounds, some tight, and tuples that come in bursts."""
    draw = random.Random(seed)
    queries = []
    for number in range(draw.randint(1, 4)):
        steps = [
            Operator(draw.randint(1, 40) / 8, draw.choice([0.25, 0.5, 0.75, 1.0])) for _ in range(draw.randint(1, 4))
        ]
        queries.append(SimQuery(f"q{number}", tuple(steps), number % 2, latency=draw.randint(40, 400) / 8))
    times = sorted(draw.sample(range(draw.choice([200, 2_000])), draw.randint(2, 24)))
    arrivals = Arrivals(
        np.array(times) / 16, np.array([draw.randrange(min(2, len(queries))) for _ in times], dtype=np.int64)
    )
    values = np.array([[draw.randint(1, 16) / 16] for _ in times])
    return queries, arrivals, values


def simulated(queries: list[SimQuery], arrivals: Arrivals, values: np.ndarray, policy: Policy) -> list[Answer]:
    found = run(network(queries), arrivals, values, policy, LEVEL)
    return list(zip(found.query.tolist(), found.tuple.tolist(), found.done.tolist(), strict=True))


@pytest.mark.parametrize("policy", BY_OPERATOR, ids=str)
def test_queues_of_operators_take_their_steps_in_the_order_of_the_simulator(policy: Policy) -> None:
    for seed in range(cases(100, soak=2_000)):
        assert answers(*drawn(seed), policy) == simulated(*drawn(seed), policy), seed


def test_chain_flush_is_none_of_the_others() -> None:
    """What the comparison shows: deadlines are tight in many scenarios, and slack in many."""
    flushed, chained = (
        [answers(*drawn(seed), policy_named(name)) for seed in range(100)] for name in ("Chain-Flush", "Chain")
    )
    differ = sum(one != other for one, other in zip(flushed, chained, strict=True))
    assert 20 < differ < 95


def test_a_deadline_is_tight_when_all_that_is_due_before_it_takes_the_time_that_is_left() -> None:
    """Babcock et al. 2004, §5.1: the sum of what the first i tuples take is the time that the i-th has."""
    waiting = [DueWork(10.0, 3.0), DueWork(4.0, 1.0), DueWork(30.0, 5.0)]
    assert flush_limit(waiting, now=5.9) == 4.0
    assert flush_limit(waiting[:1] + waiting[2:], now=6.9) == np.inf
    assert flush_limit(waiting[:1] + waiting[2:], now=7.0) == 10.0
    assert flush_limit(waiting[:1] + waiting[2:], now=7.0, workers=2.0) == np.inf
    assert flush_limit(waiting[:1] + waiting[2:], now=5.0, within=2.0) == 10.0
    assert flush_limit([], now=7.0) == np.inf
