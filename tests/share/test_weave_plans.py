"""Plans: the optimized weaver returns the naive one's, nearly always the best, and its rivals are never better."""

from __future__ import annotations

import random

import numpy as np
import pytest

from penstock.errors import Unsupported
from penstock.model.duration import SECOND
from penstock.model.window import Window
from penstock.reproduce.w11_workload import TEMPLATES_S, woven_queries
from penstock.share.weave.baselines import (
    exhaustive,
    insert_then_weave,
    local_search,
    no_share,
    random_trees,
    share_all,
    share_at_random,
)
from penstock.share.weave.costs import Load, MeasuredCosts, Rates, UnitCosts
from penstock.share.weave.counting import counted_weave
from penstock.share.weave.naive import Naive, Optimizations
from penstock.share.weave.plan_queries import PlanQuery, WovenTrees
from penstock.share.weave.tree_costs import TreeCosts
from penstock.share.weave.weaving import weave_share
from tests.share.weaving import any_workload, small_workload

STAGES = (
    Optimizations(),
    Optimizations(lookup=True),
    Optimizations(lookup=True, bitmap=True),
    Optimizations(lookup=True, bitmap=True, probing=True),
)
OTHERS = (
    Optimizations(bitmap=True),
    Optimizations(probing=True),
    Optimizations(bitmap=True, probing=True),
    Optimizations(lookup=True, probing=True),
)


def check_twins(seed: int, workloads: int) -> None:
    draw = random.Random(seed)
    for _ in range(workloads):
        work, rate = small_workload(draw)
        counted = counted_weave(work, UnitCosts(rate))
        assert weave_share(work, UnitCosts(rate)) == counted.woven
        for stage, how in enumerate(STAGES):
            naive = Naive(work, UnitCosts(rate), how)
            assert naive.run().trees == counted.woven.trees
            assert naive.operations == counted.operations[stage]
        assert Naive(work, UnitCosts(rate), draw.choice(OTHERS)).run().trees == counted.woven.trees


def test_every_optimization_leads_to_the_naive_plan_with_the_operations_that_are_told() -> None:
    check_twins(1, 60)


@pytest.mark.soak
def test_every_optimization_leads_to_the_naive_plan_on_five_hundred_workloads() -> None:
    check_twins(2, 500)


def check_measured_twins(seed: int, workloads: int) -> None:
    draw = random.Random(seed)
    for _ in range(workloads):
        work = [
            PlanQuery(s.window, draw.randrange(2), draw.randrange(4), draw.choice(("prefix", "tree", "scan")))
            for s in small_workload(draw)[0]
        ]
        rates = Rates(partial=draw.choice((1e-7, 1e-6, 1e-5)), merged=draw.choice((0.0, 1e-7, 1e-5)))
        costs = MeasuredCosts(rates, Load(draw.choice((1.0, 100.0, 10_000.0)), (1.0, draw.choice((3.0, 300.0)))))
        assert weave_share(work, costs).trees == Naive(work, costs, Optimizations()).run().trees


def test_measured_prices_lead_to_the_naive_plan_too() -> None:
    check_measured_twins(3, 40)


def against_all(seed: int, workloads: int) -> tuple[int, float]:
    """Return how often Weave Share found a cheapest plan, and by what part its worst was dearer."""
    draw, equal, worst = random.Random(seed), 0, 0.0
    for _ in range(workloads):
        work, rate = any_workload(draw, 9)
        ours, best = weave_share(work, UnitCosts(rate)).cost, exhaustive(work, UnitCosts(rate)).cost
        assert ours >= best * (1 - 1e-9)
        equal, worst = equal + (ours <= best * (1 + 1e-9)), max(worst, ours / best - 1)
    return equal, worst


def test_weave_share_finds_a_cheapest_plan_nine_times_in_ten() -> None:
    equal, worst = against_all(5, 200)
    assert equal >= 180
    assert worst < 0.1  # the paper saw 3 % (footnote 1)


def test_the_cheapest_plan_of_three_queries_is_the_least_of_all_five_partitions() -> None:
    draw = random.Random(6)
    for _ in range(20):
        work, rate = small_workload(draw, 3)
        work = (work * 2)[:3]
        parts: list[list[list[int]]] = [[[0, 1, 2]], [[0], [1, 2]], [[1], [0, 2]], [[2], [0, 1]], [[0], [1], [2]]]
        every = [TreeCosts(work, UnitCosts(rate), trees).woven().cost for trees in parts]
        assert exhaustive(work, UnitCosts(rate)).cost == pytest.approx(min(every))


def test_all_plans_of_many_queries_are_refused() -> None:
    with pytest.raises(Unsupported, match="cannot be tried"):
        exhaustive(woven_queries(13), UnitCosts(1.0))


def rivals(work: list[PlanQuery], costs: UnitCosts, seed: int) -> dict[str, WovenTrees]:
    steps = 2 * len(work)
    return {
        "No Share": no_share(work, costs),
        "Shared": share_all(work, costs),
        "Random": share_at_random(work, costs, seed),
        "Insert-then-Weave": insert_then_weave(work, costs),
        "Local Search from No Share": local_search(work, costs, steps, seed),
        "Local Search from Random": local_search(work, costs, steps, seed, random_trees(len(work), seed)),
    }


@pytest.mark.parametrize("rate", [50.0, 300.0])
def test_weave_share_is_not_dearer_than_its_rivals(rate: float) -> None:
    for seed in range(3):
        work = woven_queries(60, seed=seed)
        ours = weave_share(work, UnitCosts(rate)).cost
        for name, rival in rivals(work, UnitCosts(rate), seed).items():
            assert sorted(i for tree in rival.trees for i in tree) == list(range(60)), name
            # Both are greedy: inserting one by one was seen to end 2 % lower, never more.
            luck = 1.03 if name == "Insert-then-Weave" or name.startswith("Local") else 1 + 1e-9
            assert ours <= rival.cost * luck, name


def test_local_search_never_ends_dearer_than_it_began() -> None:
    work, costs = woven_queries(40, seed=3), UnitCosts(80.0)
    trees = random_trees(40, 3)
    began = TreeCosts(work, costs, trees).woven().cost
    assert local_search(work, costs, 100, 3, trees).cost <= began


def test_each_optimization_saves_an_order_of_magnitude_and_all_three_hundreds_of_times() -> None:
    counted = counted_weave(woven_queries(250, skew=0.7, overlap=10.0), UnitCosts(100.0))
    steps = np.array(counted.operations)
    assert (steps[:-1] / steps[1:] > 5).all()
    assert counted.saving >= 300


def test_slides_of_the_paper_are_long_more_often_the_greater_their_skew() -> None:
    def mean_slide(skew: float) -> float:
        return float(np.mean([s.window.slide / SECOND for s in woven_queries(500, skew=skew)]))

    assert max(TEMPLATES_S) == 100_000
    assert min(TEMPLATES_S) == 1
    assert mean_slide(0.0) < mean_slide(0.6) < mean_slide(2.0)
    overlaps = [s.overlap for s in woven_queries(500, overlap=10.0) if s.window.slide > 10 * SECOND]
    assert 1 <= min(overlaps) <= max(overlaps) <= 10.1


def test_slides_without_a_common_period_to_list_are_woven_as_if_it_could_be() -> None:
    primes = [p for p in range(11, 200) if all(p % d for d in range(2, p))]
    work = [PlanQuery(Window(3 * p * SECOND, p * SECOND)) for p in primes]
    work += [PlanQuery(Window(6 * p * SECOND, p * SECOND)) for p in primes]
    found = weave_share(work, UnitCosts(0.5))
    partner = {frozenset(tree) for tree in found.trees}
    for i in range(len(primes)):  # windows of one slide have the same edges: nothing is lost by sharing them
        assert any({i, i + len(primes)} <= tree for tree in partner)
    assert found.cost < share_all(work, UnitCosts(0.5)).cost


def test_nothing_to_weave_is_an_empty_plan() -> None:
    assert weave_share([], UnitCosts(1.0)) == WovenTrees((), ())
    assert len(weave_share([PlanQuery(Window(5, 5))], UnitCosts(1.0)).trees) == 1
