"""Compares the compiled simulator with SimPy by scheduling points a second, on the same scenario.

Both serve recorded packets with 500 queries and must give the same responses. SimPy's server is written as its users
write one: a process that picks the next query, and times out for its cost. For a static policy it goes down a sorted
list; for one that depends on waits it looks at every query with something pending.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import simpy

from bench._frame import Save, run_benchmark
from bench._measure import Figures, Progress, interleave
from penstock.reproduce import s07_load
from penstock.reproduce.figure import Size
from penstock.schedule.registry import policy_named
from penstock.sim import fates
from penstock.sim.arrivals import Arrivals, lbl_pkt_4
from penstock.sim.network import SimQuery, network
from penstock.sim.run import run
from penstock.sim.workloads import STEPS, three_operators

TIMES_FASTER = 100.0
WHOLE = 20_000  # packets
SOON = 600.0
IN_A_ROW = 20  # of runs that take hundredths of a second, so that both are measured over seconds


@dataclass(frozen=True, slots=True)
class Workload:
    """How many packets and queries, and how often."""

    tuples: int = 400
    queries: int = 500
    load: float = 0.95
    repetitions: int = 3
    seed: int = 1


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named."""
    workload = Workload(tuples=rows or (1_000 if full else 400))

    def measure_all(say: Progress, save: Save) -> Figures:
        figures = measure(workload, say)
        if full:
            save(figures)
            whole_set(figures, Size(WHOLE, 500, say=say))
        return figures

    run_benchmark(path, measure_all)


def measure(workload: Workload, say: Callable[[str], None]) -> Figures:
    """Run both in turns, for a static policy and for one that looks at waits."""
    times = lbl_pkt_4(workload.tuples)
    arrivals = Arrivals(times, np.zeros(len(times), dtype=np.int64))
    queries = three_operators(workload.queries, workload.seed, workload.load, arrivals.gap)
    values = fates.uniform(len(times), 3, workload.seed, steps=STEPS)
    net, points = network(queries), workload.tuples * workload.queries
    figures = Figures({"workload": asdict(workload), "points": points})
    for name in ("HNR", "BSD"):
        ours = run(net, arrivals, values, policy_named(name))  # compiles, untimed
        theirs = in_simpy(queries, times, values, name)
        same = np.allclose(np.sort(ours.response), np.sort(theirs))
        figures.expect_true(f"{name}: the same responses", bool(same))
        runs: dict[str, Callable[[], float]] = {
            f"Penstock {name}": lambda n=name: _seconds(lambda: run(net, arrivals, values, policy_named(n)), IN_A_ROW),  # type: ignore[misc]
            f"SimPy {name}": lambda n=name: _seconds(lambda: in_simpy(queries, times, values, n)),  # type: ignore[misc]
        }
        seconds = interleave(runs, workload.repetitions, say)
        rates = {who: points / statistics.median(each) for who, each in seconds.items()}
        figures.measurements[name] = {"seconds": seconds, "points_per_second": rates}
        ratio = rates[f"Penstock {name}"] / rates[f"SimPy {name}"]
        figures.expect(f"{name}: points per second, times SimPy's", ratio, ">=", TIMES_FASTER)
    return figures


def whole_set(figures: Figures, size: Size) -> None:
    """Time what Sharaf's figures over the load rest on: all of its policies at all of its loads."""

    def run_all() -> None:
        for policy in s07_load.POLICIES:
            for load in s07_load.LOADS:
                s07_load.measured(size, policy, load)

    seconds = _seconds(run_all)
    told = {"tuples": size.tuples, "queries": size.queries, "policies": s07_load.POLICIES, "loads": s07_load.LOADS}
    figures.measurements["whole set"] = {**told, "seconds": seconds}
    figures.expect("Sharaf 2007, all policies and loads: seconds", seconds, "<=", SOON)


def _seconds(work: Callable[[], Any], times: int = 1) -> float:
    """Return the processor time of a run, as other programs run too; of several in a row, the mean of one."""
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


def in_simpy(
    queries: list[SimQuery], times: np.ndarray[Any, Any], values: np.ndarray[Any, Any], policy: str
) -> list[float]:
    """Simulate in SimPy; return the responses."""
    env, responses = simpy.Environment(), list[float]()
    facts, moments, rows = [_facts(query) for query in queries], times.tolist(), values.tolist()
    heads, arrived, wake = [0] * len(queries), [0], [env.event()]
    pick = _by_rank(facts, heads, arrived) if policy == "HNR" else _by_wait(env, facts, heads, arrived, moments)

    def source() -> Generator[Any, Any, None]:
        for moment in moments:
            yield env.timeout(max(0.0, moment - env.now))
            arrived[0] += 1
            if not wake[0].triggered:
                wake[0].succeed()

    def server() -> Generator[Any, Any, None]:
        while True:
            q = pick()
            if q < 0:
                if arrived[0] == len(moments):
                    return
                wake[0] = env.event()
                yield wake[0]
                continue
            number, passed = heads[q], True
            heads[q] += 1
            for cost, chance, attribute in facts[q].steps:
                yield env.timeout(cost)
                if rows[number][attribute] > chance:
                    passed = False
                    break
            if passed:
                responses.append(env.now - moments[number])

    env.process(source())
    env.process(server())
    env.run()
    return responses


@dataclass(frozen=True, slots=True)
class _Facts:
    """A query's operators (cost, selectivity, attribute), and what its priorities are made of."""

    steps: list[tuple[float, float, int]]
    normalized_rate: float
    balanced: float


def _facts(query: SimQuery) -> _Facts:
    """Work out a query's normalized rate (Sharaf 2007, §3.1), and the same by its ideal time once more (§3.2)."""
    steps = [(o.cost, o.selectivity, o.attribute) for o in query.operators]
    cost, alive = 0.0, 1.0
    for one, passes, _ in steps:
        cost += alive * one
        alive *= passes
    ideal = sum(one for one, _, _ in steps)
    return _Facts(steps, alive / (cost * ideal), alive / (cost * ideal * ideal))


def _by_rank(facts: list[_Facts], heads: list[int], arrived: list[int]) -> Callable[[], int]:
    """Go down a sorted list, as a static policy allows; of equals, take the one whose head came first."""
    ranks = [fact.normalized_rate for fact in facts]
    ranked = sorted(range(len(facts)), key=lambda q: -ranks[q])

    def pick() -> int:
        first = next((i for i, q in enumerate(ranked) if heads[q] < arrived[0]), -1)
        if first < 0:
            return -1
        best = ranked[first]
        for q in ranked[first + 1 :]:
            if ranks[q] < ranks[best]:
                break
            if heads[q] < min(heads[best], arrived[0]):
                best = q
        return best

    return pick


def _by_wait(
    env: simpy.Environment, facts: list[_Facts], heads: list[int], arrived: list[int], moments: list[float]
) -> Callable[[], int]:
    """Look at every query with something pending: their order changes with time."""
    balanced = [fact.balanced for fact in facts]

    def pick() -> int:
        now, here, best, best_value = env.now, arrived[0], -1, -1.0
        for q, head in enumerate(heads):
            if head < here:
                value = balanced[q] * (now - moments[head])
                if value > best_value:
                    best, best_value = q, value
        return best

    return pick
