"""What the papers prove, checked against all schedules of small cases."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from penstock.schedule.charts import Chart, envelope, slopes
from penstock.schedule.registry import policy_named
from penstock.sim.arrivals import Arrivals
from penstock.sim.layout import Level, SimSettings
from penstock.sim.network import Operator, SimQuery, network
from penstock.sim.run import run
from tests.sim.test_papers import BLOCKS, charted, memory_at

CASES = 300
State = tuple[int, ...]  # units of work done on each tuple


def chart(draw: random.Random, operators: int, longest: int = 3) -> Chart:
    """A progress chart that never rises, with whole times."""
    times = [0]
    for _ in range(operators):
        times.append(times[-1] + draw.randint(1, longest))
    sizes = [1.0, *sorted((draw.randint(1, 15) / 16 for _ in range(operators - 1)), reverse=True), 0.0]
    return Chart(tuple(zip(map(float, times), sizes, strict=True)))


def size(chart: Chart, done: int) -> float:
    return next(s for t, s in reversed(chart.points) if t <= done)


def schedules(charts: list[Chart], due: list[int], arrive: list[int]) -> Iterator[tuple[int, set[State]]]:
    """List all states of all schedules, time by time, in which no deadline was missed."""
    total = [int(c.points[-1][0]) for c in charts]
    states, now = {(0,) * len(charts)}, 0
    while states and now <= max(arrive) + sum(total):
        yield now, states
        following = set()
        for state in states:
            waiting = [i for i, a in enumerate(arrive) if a <= now and state[i] < total[i]]
            moved = [(*state[:i], state[i] + 1, *state[i + 1 :]) for i in waiting] or [state]
            following |= {s for s in moved if all(s[i] == total[i] or now + 1 < due[i] for i in range(len(s)))}
        states, now = following, now + 1


def memory(charts: list[Chart], arrive: list[int], state: State, now: int) -> float:
    return sum(size(c, done) for c, a, done in zip(charts, arrive, state, strict=True) if a <= now)


def test_chain_is_within_one_unit_a_query_of_every_clairvoyant_schedule_at_every_time() -> None:
    for seed in range(CASES):
        draw = random.Random(seed)
        queries = [chart(draw, draw.randint(1, 3)) for _ in range(draw.randint(1, 2))]
        arrive = sorted(draw.randint(0, 6) for _ in range(draw.randint(2, 4)))
        of = [draw.randrange(len(queries)) for _ in arrive]
        charts = [queries[q] for q in of]
        net = network([charted(f"q{i}", c, stream=i) for i, c in enumerate(queries)])
        given = Arrivals(np.array(arrive, dtype=float), np.array(of, dtype=np.int64))
        found = run(net, given, np.zeros((len(of), 1)), policy_named("Chain"), BLOCKS)
        never = [10**9] * len(arrive)
        for now, states in schedules(charts, never, arrive):
            if now < arrive[0]:
                continue
            least = min(memory(charts, arrive, s, now) for s in states)
            assert memory_at(found, [now])[0] <= least + len(queries) + 1e-6, f"seed {seed}, time {now}"


def test_chain_flush_needs_one_unit_more_than_the_best_that_meets_all_deadlines() -> None:
    tried = 0
    for seed in range(CASES * 4):
        draw = random.Random(seed)
        one = chart(draw, draw.randint(1, 3))
        if len(envelope(one)) > 3:
            continue
        arrive = sorted(draw.randint(0, 7) for _ in range(draw.randint(2, 4)))
        latency = draw.randint(int(one.points[-1][0]), 14)
        charts, due = [one] * len(arrive), [a + latency for a in arrive]
        best: dict[State, float] = {(0,) * len(arrive): 0.0}
        for now, states in schedules(charts, due, arrive):
            best = least_peaks(best, states, charts, arrive, now)
        done = best.get((int(one.points[-1][0]),) * len(arrive))
        if done is None:
            continue  # no schedule meets all deadlines
        tried += 1
        given = Arrivals(np.array(arrive, dtype=float), np.zeros(len(arrive), dtype=np.int64))
        net = network([charted("q", one, latency=float(latency))])
        found = run(net, given, np.zeros((len(arrive), 1)), policy_named("Chain-Flush"), BLOCKS)
        assert found.response.max() <= latency + 1e-6, f"seed {seed}"
        whole = [float(t) for t in range(int(found.end) + 1) if t >= arrive[0]]
        assert max(memory_at(found, whole)) <= done + 1 + 1e-6, f"seed {seed}"
    assert tried >= CASES


def least_peaks(
    before: dict[State, float], states: set[State], charts: list[Chart], arrive: list[int], now: int
) -> dict[State, float]:
    """The least peak with which each state can be reached."""
    found: dict[State, float] = {}
    for state in states:
        came = [before[s] for s in (state, *earlier(state)) if s in before]
        if came:
            found[state] = max(min(came), memory(charts, arrive, state, now))
    return found


def earlier(state: State) -> list[State]:
    return [(*state[:i], done - 1, *state[i + 1 :]) for i, done in enumerate(state) if done]


def feasible(jobs: list[tuple[int, int, int]]) -> bool:
    """Whether some preemptive schedule meets all deadlines: no stretch of time holds more work than itself."""
    starts, ends = {j[0] for j in jobs}, {j[2] for j in jobs}
    return all(sum(w for r, w, d in jobs if r >= a and d <= b) <= b - a for a in starts for b in ends if b > a)


def test_preemptive_edf_meets_all_deadlines_whenever_some_schedule_does() -> None:
    tried, missed = 0, 0
    for seed in range(CASES * 4):
        draw = random.Random(seed)
        jobs = [(draw.randint(0, 8), draw.randint(1, 4), 0) for _ in range(draw.randint(2, 6))]
        jobs = sorted((r, w, r + w + draw.randint(0, 9)) for r, w, _ in jobs)
        queries = [SimQuery(f"q{i}", (Operator(w),), i, latency=float(d - r)) for i, (r, w, d) in enumerate(jobs)]
        given = Arrivals(np.array([float(j[0]) for j in jobs]), np.arange(len(jobs)))
        settings = SimSettings(level=Level.PREEMPTIVE)
        found = run(network(queries), given, np.ones((len(jobs), 1)), policy_named("EDF"), settings)
        met = all(done <= jobs[q][2] + 1e-9 for q, done in zip(found.query, found.done, strict=True))
        tried += feasible(jobs)
        missed += not met
        assert met == feasible(jobs), f"seed {seed}"
    assert tried >= CASES
    assert missed >= 50


def test_slopes_of_the_lower_envelope_never_rise() -> None:
    for seed in range(CASES):
        found = slopes(chart(random.Random(seed), random.Random(seed).randint(1, 6), 9))
        assert all(a >= b - 1e-12 for a, b in pairwise(found))


@pytest.mark.parametrize("policy", ["HR", "HNR"])
def test_with_selectivity_one_everywhere_rates_order_as_srpt(policy: str) -> None:
    for seed in range(50):
        draw = random.Random(seed)
        steps = [tuple(Operator(draw.randint(1, 9)) for _ in range(draw.randint(1, 3))) for _ in range(5)]
        if len({sum(o.cost for o in s) for s in steps}) < 5:
            continue  # ties are broken alike, but equal ranks may be rounded apart
        net = network([SimQuery(f"q{i}", s) for i, s in enumerate(steps)])
        given = Arrivals(np.sort([float(draw.randint(0, 40)) for _ in range(8)]), np.zeros(8, dtype=np.int64))
        runs = [run(net, given, np.ones((8, 1)), policy_named(p)) for p in (policy, "SRPT")]
        assert np.array_equal(runs[0].done, runs[1].done)
        assert np.array_equal(runs[0].query, runs[1].query)
