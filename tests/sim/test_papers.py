"""Examples that the papers work out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.schedule.charts import Chart, envelope, slopes
from penstock.schedule.policy import Policy
from penstock.schedule.registry import policy_named
from penstock.sim.arrivals import Arrivals
from penstock.sim.layout import Level, SimSettings
from penstock.sim.metrics import SimOutcome
from penstock.sim.network import Operator, SimQuery, network
from penstock.sim.run import run

BLOCKS = SimSettings(level=Level.PREEMPTIVE, fluid=True, trace=True)


def charted(name: str, chart: Chart, **facts: float) -> SimQuery:
    """A query whose operators follow a progress chart."""
    steps = zip(chart.costs, chart.selectivities, strict=True)
    return SimQuery(name, tuple(Operator(cost, chance) for cost, chance in steps), **facts)  # type: ignore[arg-type]


def over(chart: Chart, times: list[float], policy: Policy | str, **facts: float) -> SimOutcome:
    policy = policy_named(policy) if isinstance(policy, str) else policy
    arrivals = Arrivals(np.array(times, dtype=float), np.zeros(len(times), dtype=np.int64))
    return run(network([charted("q", chart, **facts)]), arrivals, np.zeros((len(times), 1)), policy, BLOCKS)


def memory_at(outcome: SimOutcome, times: list[float]) -> list[float]:
    places = np.searchsorted(outcome.trace_time, np.array(times) + 1e-9) - 1
    return [round(float(outcome.trace_size[p]), 6) for p in places]


# -- Sharaf 2007 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "response", "slowdown"), [("HR", 12.25, 3.875), ("HNR", 13.0, 2.9)])
def test_example_1_of_two_queries_and_three_tuples(policy: str, response: float, slowdown: float) -> None:
    queries = [SimQuery("Q1", (Operator(5, 1.0, 0),)), SimQuery("Q2", (Operator(2, 0.33, 1),))]
    values = np.array([[1.0, 1.0], [1.0, 0.1], [1.0, 1.0]])  # Q2 takes the middle one
    found = run(network(queries), Arrivals(np.zeros(3), np.zeros(3, dtype=np.int64)), values, policy_named(policy))
    assert found.response.mean() == pytest.approx(response)
    assert found.slowdown.mean() == pytest.approx(slowdown)


# -- Babcock et al. 2004 -----------------------------------------------------------------------------------------

EXAMPLE_1 = Chart(((0, 1), (1, 0.2), (2, 0)))
EXAMPLE_2 = Chart(((0, 1), (1, 0.1), (99, 0.001), (100, 0)))


@pytest.mark.parametrize(
    ("policy", "sizes"),
    [
        ("Greedy", [1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2]),
        ("Chain", [1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2]),
        ("FIFO", [1, 1.2, 2.0, 2.2, 3.0, 3.2, 4.0]),
    ],
)
def test_example_1_of_queue_sizes(policy: str, sizes: list[float]) -> None:
    found = over(EXAMPLE_1, [0, 1, 2, 3, 4, 5, 6], policy)
    assert memory_at(found, [0, 1, 2, 3, 4, 5, 6]) == pytest.approx(sizes)
    assert found.end == 14


def test_example_2_tuples_that_come_just_too_fast() -> None:
    times = [99.0 * i for i in range(1, 101)]
    chain, fifo, mixed = (over(EXAMPLE_2, times, p) for p in ("Chain", "FIFO", "Mixed(0.01)"))
    assert chain.memory_peak == pytest.approx(1.099)
    assert chain.response.max() == pytest.approx(9901)
    assert fifo.response.max() == pytest.approx(199)
    # The paper prints 2 for FIFO and Mixed: by its own chart the tuple before the last is down to 0.1 when that comes.
    assert (fifo.memory_peak, mixed.memory_peak) == pytest.approx((1.1, 1.1), abs=0.01)
    # It prints averages of 5000 and 150.
    assert (chain.response.mean(), fifo.response.mean()) == pytest.approx((5050, 149.5))
    assert mixed.response.max() == pytest.approx(199)


def test_example_2_tuples_that_come_in_a_burst() -> None:
    times = [10.0 * i for i in range(1, 11)]
    chain, fifo, mixed = (over(EXAMPLE_2, times, p) for p in ("Chain", "FIFO", "Mixed(0.01)"))
    assert chain.memory_peak == pytest.approx(1.9)
    assert mixed.memory_peak == pytest.approx(1.9)
    assert fifo.memory_peak == pytest.approx(9.1)
    # The paper prints 910 for all three; under Chain the first tuple waits at the last segment for all the others.
    assert [f.response.max() for f in (chain, fifo, mixed)] == pytest.approx([991, 910, 910])


def test_the_lower_envelope_leads_from_one_steepest_point_to_the_next() -> None:
    hidden = Chart(((0, 1), (400, 0.9), (2000, 0.88), (2200, 0.1), (4000, 0)))
    assert envelope(hidden) == [0, 3, 4]
    assert slopes(hidden) == pytest.approx([0.9 / 2200] * 3 + [0.1 / 1800])


def test_of_equally_steep_points_the_first_is_taken() -> None:
    assert envelope(Chart(((0, 1), (1, 0.5), (2, 0)))) == [0, 1, 2]


def test_mixed_joins_flat_segments_as_the_paper_says() -> None:
    table_1 = Chart(((0, 1), (1000, 0.3), (1990, 0.2), (3490, 0.1), (5490, 0)))
    distinct = [len(set(slopes(table_1, gamma))) for gamma in (0.0, 0.0001, 0.0002, 0.0008)]
    assert distinct == [4, 3, 2, 1]
