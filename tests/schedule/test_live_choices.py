"""The live engine chooses in the order in which the simulator does, from the same scenario files.

These are the examples of Sharaf 2007, chapters 3 to 5, that the simulator reproduces exactly, and random scenarios.
What the live engine cannot express, and what is left to the simulator alone:

- Operators inside a query, with something else between two of them (levels *operator* and *preemptive*, Chain, Greedy,
  shared operators and PDT): an item of the engine is a query's windows and runs to its end. Here queries of several
  operators are one step, by the S, C and T of all of it; SRPT, which knows what is left of T, sees the mean cost
  instead, and is compared on queries of one operator.
- Hybrid looks at all tuples of a query that wait (§3.5.2), and the desk answers what waits of a query together, so it
  is compared where one tuple a query waits.
- The engine lets nothing starve, whatever the policy (``ordered_without_starving``, tested in ``test_ordering.py``).
  The papers have no such guard, and their tuples wait for minutes: it is left out here.
- The engine answers items in groups, and Hybrid looks at when a group ends. Here one tuple runs at a time.
- Weights: the simulator's policies ignore them but for FAS-MCQ, the engine's do not.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from penstock.project.scenario import Scenario, read_scenario
from penstock.schedule.ordering import is_live
from penstock.schedule.policy import Manner, Policy
from penstock.schedule.registry import POLICIES, policy_named
from penstock.sim.arrivals import Arrivals
from penstock.sim.fates import LEAST
from penstock.sim.network import Operator, SimQuery, network
from penstock.sim.run import run
from tests.cases import cases
from tests.schedule.live_choices import Choice, by_desk, by_ordering, choices

SCENARIOS = Path(__file__).parent / "scenarios"
NAMED = [policy for policy in POLICIES.values() if is_live(policy)] + [policy_named("FAS-MCQ(0.25)")]


@pytest.fixture(autouse=True)
def without_guard_and_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.schedule.ordering.STARVING_S", float("inf"))
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)


def scenario(name: str) -> Scenario:
    found, reading = read_scenario(SCENARIOS / name)
    assert found is not None, reading.problems
    return found


def simulated(queries: list[SimQuery], arrivals: Arrivals, policy: Policy) -> list[Choice]:
    """List the simulator's choices: every tuple passes, so every one that runs ends in an answer."""
    values = np.full((len(arrivals), 1 + max(o.attribute for q in queries for o in q.operators)), LEAST)
    found = run(network(queries), arrivals, values, policy)
    return list(zip(found.query.tolist(), found.tuple.tolist(), strict=True))


def of_scenario(name: str) -> tuple[list[SimQuery], Arrivals, tuple[Policy, ...]]:
    given = scenario(name)
    return [q for q in given.queries if isinstance(q, SimQuery)], given.arrivals, given.policies


@pytest.mark.parametrize("name", sorted(path.name for path in SCENARIOS.glob("*.yml")))
def test_scenarios_of_the_papers_run_in_the_same_order_live(name: str) -> None:
    queries, arrivals, policies = of_scenario(name)
    for policy in policies:
        wanted = simulated(queries, arrivals, policy)
        assert [c for c, _ in choices(queries, arrivals, by_ordering(policy))] == wanted, policy
        if all(o.selectivity == 1.0 for q in queries for o in q.operators):
            assert [c for c, _ in choices(queries, arrivals, by_desk(policy))] == wanted, policy


@pytest.mark.parametrize(("policy", "response", "slowdown"), [("HR", 12.25, 3.875), ("HNR", 13.0, 2.9)])
def test_example_1_has_the_papers_times_live(policy: str, response: float, slowdown: float) -> None:
    queries, arrivals, _ = of_scenario("example_1.yml")
    done = list(choices(queries, arrivals, by_ordering(policy_named(policy))))
    kept = [(query, time) for (query, number), time in done if query == 0 or number == 1]  # Q2 takes the middle one
    assert np.mean([time for _, time in kept]) == pytest.approx(response)
    assert np.mean([time / queries[query].operators[0].cost for query, time in kept]) == pytest.approx(slowdown)


@pytest.mark.parametrize("policy", ["HR", "HNR", "FAS-MCQ(0)"])
def test_where_every_tuple_passes_the_desk_runs_the_shortest_first(policy: str) -> None:
    queries, arrivals, _ = of_scenario("all_pass.yml")
    runs = [list(choices(queries, arrivals, by_desk(policy_named(name)))) for name in (policy, "SRPT")]
    assert runs[0] == runs[1]


def test_with_beta_zero_fas_chooses_as_hr() -> None:
    queries, arrivals, _ = of_scenario("two_operators.yml")
    runs = [list(choices(queries, arrivals, by_ordering(policy_named(name)))) for name in ("FAS-MCQ(0)", "HR")]
    assert runs[0] == runs[1]


def drawn(seed: int, policy: Policy, *, all_pass: bool) -> tuple[list[SimQuery], Arrivals]:
    """Draw queries of one operator with a stream each, and their tuples, in microseconds: no two are alike."""
    draw = random.Random(seed)
    queries, times = [], []
    for number in range(draw.randint(2, 9)):
        selectivity = 1.0 if all_pass else draw.choice([0.1, 0.5, draw.uniform(0.05, 1.0), 1.0])
        weight = draw.choice([0.5, 1.0, 2.0]) if policy.manner == Manner.QUEUE and not all_pass else 1.0
        operator = Operator(draw.randint(1, 3_000_000) / 1e6, selectivity)
        queries.append(SimQuery(f"q{number}", (operator,), number, weight, draw.randint(1, 12_000_000) / 1e6))
        many = 1 if policy.manner == Manner.HYBRID else draw.randint(1, 6)
        times += [(draw.randint(0, 12_000_000) / 1e6, number) for _ in range(many)]
    times.sort()
    return queries, Arrivals(np.array([t for t, _ in times]), np.array([s for _, s in times], dtype=np.int64))


@pytest.mark.parametrize("policy", NAMED, ids=str)
def test_random_scenarios_run_in_the_same_order_live(policy: Policy) -> None:
    for seed in range(cases(200, soak=5_000)):
        all_pass = bool(seed % 2)
        queries, arrivals = drawn(seed, policy, all_pass=all_pass)
        wanted = simulated(queries, arrivals, policy)
        assert [c for c, _ in choices(queries, arrivals, by_ordering(policy))] == wanted, seed
        if all_pass:
            assert [c for c, _ in choices(queries, arrivals, by_desk(policy))] == wanted, seed
