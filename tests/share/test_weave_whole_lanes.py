"""What it costs that queries over the same rows under the same keys always share a tree: every plan is tried."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from penstock.model.duration import SECOND
from penstock.model.window import Window
from penstock.share.weave.baselines import exhaustive, share_all
from penstock.share.weave.costs import Load, MeasuredCosts, Rates
from penstock.share.weave.plan_queries import PlanQuery


def workload(draw: random.Random) -> tuple[list[PlanQuery], MeasuredCosts]:
    """Draw up to seven queries over a few groupings and conditions, and what their stream brings."""
    woven_queries = []
    for _ in range(draw.randint(3, 7)):
        slide = draw.choice((1, 2, 3, 5, 7, 10, 60, 300))
        window = Window(draw.randint(1, 4 * slide) * SECOND, slide * SECOND)
        woven_queries.append(PlanQuery(window, draw.randrange(2), draw.randrange(3), "prefix"))
    rates = Rates(partial=draw.choice((1e-7, 3e-6, 1e-4)), tree=draw.choice((0.0, 2e-3)))
    groups = (1.0, draw.choice((2.0, 100.0, 3_000.0)))
    batches = draw.choice((0.0, 0.001, 0.5))
    return woven_queries, MeasuredCosts(
        rates, Load(draw.choice((1.0, 50.0, 5_000.0)), groups, draw.choice((0.5, 1.0)), batches)
    )


def lanes(woven_queries: list[PlanQuery]) -> list[list[int]]:
    """Collect the queries of each grouping and condition."""
    found: dict[tuple[int, int], list[int]] = {}
    for number, woven_query in enumerate(woven_queries):
        found.setdefault((woven_query.grouping, woven_query.condition), []).append(number)
    return list(found.values())


def dearer(woven_queries: list[PlanQuery], costs: MeasuredCosts) -> float:
    """Return by what part the cheapest plan of whole lanes is dearer than the cheapest of all plans."""
    return exhaustive(woven_queries, costs, lanes(woven_queries)).cost / exhaustive(woven_queries, costs).cost - 1


def test_queries_over_the_same_rows_alone_are_one_tree_in_the_cheapest_plan() -> None:
    for seed in range(100):
        woven_queries, costs = workload(random.Random(seed))
        alike = [replace(woven_query, grouping=1, condition=0) for woven_query in woven_queries]
        assert dearer(alike, costs) <= 1e-9, seed


def test_beside_other_queries_parting_those_over_the_same_rows_gains_next_to_nothing() -> None:
    found = [dearer(*workload(random.Random(seed))) for seed in range(100)]
    assert sum(part > 1e-9 for part in found) == 1  # one rides in a tree whose edges it has, the others stay behind
    assert max(found) == pytest.approx(0.0325, abs=0.001)


@pytest.mark.soak
def test_in_many_workloads_too_parting_queries_over_the_same_rows_gains_next_to_nothing() -> None:
    found = [dearer(*workload(random.Random(seed))) for seed in range(1_000, 5_000)]
    assert sum(part > 1e-9 for part in found) <= 40
    assert max(found) <= 0.1


def test_classes_that_stay_whole_leave_fewer_plans() -> None:
    woven_queries, costs = workload(random.Random(3))
    everything = exhaustive(woven_queries, costs, [list(range(len(woven_queries)))])
    assert everything.trees == share_all(woven_queries, costs).trees
    assert everything.cost == pytest.approx(share_all(woven_queries, costs).cost)


def test_a_batch_a_second_leaves_few_queries_in_one_tree() -> None:
    often, seldom = PlanQuery(Window(SECOND, SECOND)), PlanQuery(Window(3600 * SECOND, 3600 * SECOND), grouping=1)
    for batches, trees in ((0.001, 2), (10.0, 1)):
        costs = MeasuredCosts(Rates(), Load(1_000.0, (1.0, 3_000.0), batches_per_second=batches))
        assert len(exhaustive([often, seldom], costs).trees) == trees
