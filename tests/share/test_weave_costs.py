"""What trees cost: the paper's equations and examples, and the same form with measured prices."""

from __future__ import annotations

import math
import random
import time
from dataclasses import fields, replace

import numpy as np
import pytest

from penstock.model.duration import SECOND
from penstock.model.window import Window
from penstock.share.weave.baselines import no_share, share_all
from penstock.share.weave.costs import (
    HALF_CROWDED,
    Load,
    MeasuredCosts,
    Rates,
    UnitCosts,
    partials_per_second,
    shards_of,
)
from penstock.share.weave.density import edge_rate
from penstock.share.weave.incremental import IncrementalPlanner
from penstock.share.weave.plan_queries import PlanQuery
from penstock.share.weave.tree_costs import TreeCosts, beside
from penstock.share.weave.weaving import weave_share
from tests.share.weaving import EXAMPLE, small_workload

EXAMPLE_3 = list(EXAMPLE)
DEAR_PARTIALS = Rates(scanned=0.0, sliced=1e-8, copied=1e-7, partial=1e-5, lone=1e-5, merged=0.0, evaluation=0.0)

FREE = Rates(**dict.fromkeys((f.name for f in fields(Rates)), 0.0))


def test_example_3_weaves_a_and_c_and_leaves_b_alone() -> None:
    costs = UnitCosts(1.2)
    found = weave_share(EXAMPLE_3, costs)
    assert found.trees == ((0, 2), (1,))
    assert found.cost == pytest.approx(4.3)
    assert share_all(EXAMPLE_3, costs).cost == pytest.approx(4.4)
    # The paper prints 11.6 for no sharing, which does not follow from its Eq. 3: 3·1.2 + 4/4 + 2/5 + 2/4 = 5.5.
    assert no_share(EXAMPLE_3, costs).cost == pytest.approx(5.5)


def test_equations_1_to_3_and_5_hold_for_random_trees() -> None:
    draw = random.Random(3)
    for _ in range(20):
        woven_queries, rate = small_workload(draw)
        cut = draw.randint(1, len(woven_queries) - 1)
        tree_costs = TreeCosts(woven_queries, UnitCosts(rate), [range(cut), range(cut, len(woven_queries))])
        overlaps = [sum(s.overlap for s in part) for part in (woven_queries[:cut], woven_queries[cut:])]
        edges = [edge_rate([s.window for s in part]).value for part in (woven_queries[:cut], woven_queries[cut:])]
        costs = [rate + e * o for e, o in zip(edges, overlaps, strict=True)]  # Eq. 1, 2
        assert tree_costs.costs[:2] == pytest.approx(costs)
        assert tree_costs.woven().cost == pytest.approx(
            2 * rate + sum(e * o for e, o in zip(edges, overlaps, strict=True))
        )
        together = edge_rate([s.window for s in woven_queries]).value
        saved = rate + edges[0] * overlaps[0] + edges[1] * overlaps[1] - together * sum(overlaps)  # Eq. 5
        assert tree_costs.reductions(0, np.array([1]))[0] == pytest.approx(saved)


def test_partials_are_few_where_slices_are_and_never_more_than_rows() -> None:
    made = partials_per_second(100.0, np.array([0.01, 1.0, 1e6, 0.0]), np.array([10.0, 1000.0, 1.0, 5.0]))
    assert made[0] == pytest.approx(0.1)  # every shard of a long slice holds a row
    assert 90 < made[1] < 100
    assert made[2] == pytest.approx(100.0, rel=1e-3)
    assert made[3] == 0.0


@pytest.mark.parametrize("shards", [1.0, 7.5, 300.0, 40_000.0])
def test_shards_are_told_from_the_partials_they_make(shards: float) -> None:
    made = float(partials_per_second(5_000.0, np.array([3.0]), np.array([shards]))[0])
    assert shards_of(5_000.0, 3.0, made) == pytest.approx(shards, rel=1e-4)


def test_as_many_partials_as_rows_tell_no_number_of_shards() -> None:
    assert shards_of(100.0, 3.0, 100.0) == float("inf")
    assert shards_of(100.0, 3.0, 0.0) == 0.0


def test_groups_without_rows_cost_a_cell_in_every_slice() -> None:
    rates = replace(FREE, cell=1.0)
    woven_queries = [PlanQuery(Window(10 * SECOND, 10 * SECOND), 1), PlanQuery(Window(SECOND, SECOND), 0)]
    costs = measured(0.0, (1.0, 3_000.0), rates)
    assert share_all(woven_queries, costs).cost == pytest.approx(3_000.0)  # a slice a second
    assert no_share(woven_queries, costs).cost == pytest.approx(300.0)


def test_partials_are_those_of_groups_that_rows_fall_into() -> None:
    rates = replace(FREE, partial=1.0)
    woven_query = PlanQuery(Window(SECOND, SECOND), 0)
    load = Load(1e6, (3_000.0,), filled=(40.0,))
    assert no_share([woven_query], MeasuredCosts(rates, load)).cost == pytest.approx(40.0)


def test_every_condition_but_that_which_takes_all_rows_is_asked_of_every_row_in_its_tree() -> None:
    rates = replace(FREE, asked=1.0)
    woven_queries = [PlanQuery(Window(SECOND, SECOND), condition=number) for number in (0, 1, 2, 2)]
    asked = MeasuredCosts(rates, Load(5.0, (1.0,)))
    assert share_all(woven_queries, asked).cost == pytest.approx(10.0)  # three, by halving
    free = MeasuredCosts(rates, Load(5.0, (1.0,), free=1))
    assert share_all(woven_queries, free).cost == pytest.approx(5.0 * math.log2(3))
    assert no_share(woven_queries, free).cost == pytest.approx(15.0)
    to_come = MeasuredCosts(rates, Load(5.0, (1.0,), free=99))
    assert share_all(woven_queries, to_come).cost == pytest.approx(10.0)


def test_trees_beside_each_other_keep_each_others_groups_far_from_the_processor() -> None:
    rates, half = replace(FREE, crowded=1.0), HALF_CROWDED / 4
    woven_queries = [PlanQuery(Window(3600 * SECOND, 3600 * SECOND), 0, number) for number in range(4)]
    costs = MeasuredCosts(rates, Load(1e9, (half,), fragments_per_condition=0.25))
    tree_costs = TreeCosts(woven_queries, costs)
    assert tree_costs.woven().cost == pytest.approx(4e9 / 17)  # each on its own: a quarter of the groups, squared
    tree_costs.stand()
    assert tree_costs.crowd == pytest.approx(HALF_CROWDED)
    assert tree_costs.woven().cost == pytest.approx(2e9)
    assert no_share(woven_queries, costs.among(HALF_CROWDED)).cost == pytest.approx(2e9)
    together = TreeCosts(woven_queries, costs, [range(4)])
    alone = together.woven().cost
    together.stand()
    assert together.woven().cost == pytest.approx(alone)


def test_keyless_trees_are_not_crowded() -> None:
    tree_costs = TreeCosts([PlanQuery(Window(n * SECOND, n * SECOND)) for n in (2, 3, 5)], measured(1_000.0, (1.0,)))
    alone = tree_costs.woven().cost
    tree_costs.stand()
    assert tree_costs.crowd == pytest.approx(3.0)
    assert tree_costs.woven().cost == pytest.approx(alone)


def test_trees_that_crowd_each_other_are_woven_once_more() -> None:
    # Parted, each of 20 conditions has its own slices; together they have all of them, five fragments each.
    steps = (601, 607, 613, 617, 619, 631, 641, 643, 647, 653, 659, 661, 673, 677, 683, 691, 701, 709, 719, 727)
    woven_queries = [PlanQuery(Window(s * SECOND, s * SECOND), 0, i, "prefix") for i, s in enumerate(steps)]
    rates = replace(FREE, partial=1e-6, crowded=3e-7)
    costs = MeasuredCosts(rates, Load(200.0, (20_000.0,), fragments_per_condition=1.0))
    greedy = weave_share(woven_queries, costs)
    planner = IncrementalPlanner(costs, dict(enumerate(woven_queries)))
    assert beside(woven_queries, costs, greedy.trees).woven().cost > 1.05 * greedy.cost
    assert planner.cost < beside(woven_queries, costs, greedy.trees).woven().cost
    assert len(planner.trees) < len(greedy.trees)


def test_what_a_batch_costs_whatever_its_trees_is_told_by_its_queries() -> None:
    rates = replace(FREE, batch=1.0, query=0.1, several=0.5)
    assert rates.whatever(3, plain=True) == pytest.approx(1.3)
    assert rates.whatever(3, plain=False) == pytest.approx(1.8)


def measured(rows: float, groups: tuple[float, ...], rates: Rates = DEAR_PARTIALS) -> MeasuredCosts:
    return MeasuredCosts(rates, Load(rows, groups))


def test_many_groups_are_not_cut_by_the_short_slides_of_a_grouping_with_few() -> None:
    short, long = (
        PlanQuery(Window(SECOND, SECOND), grouping=0),
        PlanQuery(Window(3600 * SECOND, 3600 * SECOND), grouping=1),
    )
    apart = weave_share([short, long], measured(1_000.0, (1.0, 3_000.0)))
    assert apart.trees == ((0,), (1,))
    few = weave_share([short, long], measured(1_000.0, (1.0, 2.0), Rates(partial=1e-9)))
    assert few.trees == ((0, 1),)  # with next to nothing to pay for partials, a row is better placed once


def test_one_grouping_and_condition_is_shared_whatever_the_slides() -> None:
    draw = random.Random(2)
    for _ in range(10):
        woven_queries = [PlanQuery(s.window, merging="prefix") for s in small_workload(draw)[0]]
        assert len(weave_share(woven_queries, measured(500.0, (3_000.0,), Rates())).trees) == 1


def test_nested_conditions_under_one_grouping_share_a_tree() -> None:
    windows = [Window(r * SECOND, s * SECOND) for r, s in ((600, 300), (750, 410), (900, 333))]
    woven_queries = [PlanQuery(w, 0, condition, "prefix") for w in windows for condition in range(8)]
    planner = IncrementalPlanner(measured(1_000.0, (3_000.0,), Rates()), dict(enumerate(woven_queries)), bound=True)
    assert len(planner.trees) == 1
    assert planner.cost <= no_share(woven_queries, planner.costs).cost


def test_measured_costs_are_the_unit_costs_where_only_rows_and_merges_cost() -> None:
    woven_queries, rate = small_workload(random.Random(8))
    rates = Rates(scanned=0.0, sliced=1.0, copied=0.0, partial=0.0, lone=0.0, merged=1.0, evaluation=0.0)
    ours = weave_share(woven_queries, measured(rate, (1.0,), rates))
    theirs = weave_share(woven_queries, UnitCosts(rate))
    assert ours.trees == theirs.trees
    assert ours.cost == pytest.approx(theirs.cost)


def test_windows_of_long_ranges_cost_more_where_they_are_merged_from_trees() -> None:
    rates = Rates(scanned=0.0, sliced=0.0, copied=0.0, partial=0.0, lone=0.0, merged=1.0, evaluation=0.0)
    windows = [Window(r * SECOND, SECOND) for r in (4, 64)]
    costs = [no_share([PlanQuery(w, merging="tree")], measured(1.0, (1.0,), rates)).cost for w in windows]
    assert costs == pytest.approx([4.0, 12.0])  # two nodes a level, log₂ of the slices in a range


def test_a_window_costs_by_itself_and_by_its_groups() -> None:
    rates = replace(FREE, window=5.0, evaluation=1.0)
    woven_query = PlanQuery(Window(60 * SECOND, 2 * SECOND), grouping=1)
    assert no_share([woven_query], measured(1.0, (1.0, 30.0), rates)).cost == pytest.approx((5.0 + 30.0) / 2)


def test_a_tree_has_a_turn_in_every_batch_or_for_every_window() -> None:
    rates, load = replace(FREE, turn=8.0), Load(1.0, (1.0,), batches_per_second=0.25)
    often, seldom = (PlanQuery(Window(s * SECOND, s * SECOND)) for s in (1, 16))
    costs = MeasuredCosts(rates, load)
    assert no_share([often], costs).cost == pytest.approx(8 / 4)
    assert no_share([seldom], costs).cost == pytest.approx(8 / 16)
    assert no_share([often, seldom], costs).cost == pytest.approx(8 / 4 + 8 / 16)
    assert share_all([often, seldom], costs).cost == pytest.approx(8 / 4)


def test_rows_that_are_sent_cost_what_the_driver_does_with_them() -> None:
    """λ · (sorted + components) for each grouping of a tree, and something for each grouping in each batch."""
    window = Window(SECOND, SECOND)
    rates = replace(FREE, sorted=1.0, reduced=10.0, tabled=100.0, member=1000.0, component=5.0, copied=2.0)
    load = Load(7.0, (1.0, 4.0), batches_per_second=0.5, numbers=(2.0, 3.0), states=(0.0, 1.0), rows_sent=True)
    queries = [PlanQuery(window, 0, 0, "prefix"), PlanQuery(window, 1, 0, "tree")]
    sent = 7.0 * (1 + 20) + 7.0 * (1 + 30 + 100) + 2 * 0.5 * 1000
    assert share_all(queries, MeasuredCosts(rates, load)).cost == pytest.approx(sent)
    assert no_share(queries, MeasuredCosts(rates, load)).cost == pytest.approx(sent)  # nothing is sorted twice
    parted = [replace(queries[1], condition=number) for number in range(2)]
    asunder = no_share(parted, MeasuredCosts(rates, load)).cost
    assert asunder == pytest.approx(2 * share_all(parted, MeasuredCosts(rates, load)).cost)
    copied = MeasuredCosts(rates, replace(load, rows_sent=False))  # every copy of a row updates all components
    assert share_all(queries, copied).cost == pytest.approx(2 * 7.0 * (2 + 4 * 5))


def test_partials_cost_more_with_every_component_and_state() -> None:
    rates = replace(FREE, column=1.0, state=10.0)
    load = Load(1e9, (1.0, 4.0), numbers=(2.0, 3.0), states=(0.0, 1.0))
    one = PlanQuery(Window(SECOND, SECOND), 1, 0, "tree")
    assert share_all([one], MeasuredCosts(rates, load)).cost == pytest.approx(4 * (3 + 10))


def test_several_trees_must_save_some_of_what_is_fixed() -> None:
    """Few groups often, many groups seldom: two trees cost less, and one is taken where that is lost in the rest."""
    queries = {0: PlanQuery(Window(SECOND, SECOND)), 1: PlanQuery(Window(3600 * SECOND, 3600 * SECOND), 1)}
    costs = MeasuredCosts(Rates(), Load(1_000.0, (1.0, 1_000.0)))
    two, one = weave_share(list(queries.values()), costs), share_all(list(queries.values()), costs)
    assert (len(two.trees), one.cost > 2 * two.cost) == (2, True)
    for fixed, trees in ((0.0, 2), (5 * one.cost, 2), (100 * one.cost, 1)):
        planner = IncrementalPlanner(costs, queries, bound=True, fixed=fixed, margin=0.05)
        assert len(planner.trees) == trees
        planner.lay_out([(0,), (1,)])
        assert planner.gather() == (trees == 1)
        assert len(planner.trees) == trees


def test_a_thousand_mixed_queries_are_planned_within_a_second_and_lanes_stay_whole() -> None:
    draw = random.Random(1)
    sizes = (10, 5), (30, 10), (60, 10), (60, 60), (300, 30), (300, 60), (900, 60), (900, 300)
    windows = [Window(length * SECOND, slide * SECOND) for length, slide in sizes]
    queries = [PlanQuery(draw.choice(windows), draw.randrange(8), draw.randrange(600), "prefix") for _ in range(1_000)]
    groups = (1.0, 24.0, 4.0, 12.0, 2.0, 3_000.0, 5_000.0, 80.0)
    load = Load(333.0, groups, 0.5, 1 / 60, free=0, numbers=(6.0,) * 8, states=(1.0,) * 8, rows_sent=True)
    began = time.process_time()
    planner = IncrementalPlanner(MeasuredCosts(Rates(), load), dict(enumerate(queries)), bound=True)
    assert time.process_time() - began < 1.0
    home = {number: place for place, tree in enumerate(planner.trees) for number in tree}
    trees_of = {
        query.lane: {home[n] for n, other in enumerate(queries) if other.lane == query.lane} for query in queries
    }
    assert all(len(trees) == 1 for trees in trees_of.values())
    assert planner.cost <= share_all(queries, planner.costs).cost
