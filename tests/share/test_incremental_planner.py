"""Queries that come and go: each is taken in at once, and the plan stays near what weaving from scratch gives."""

from __future__ import annotations

import math
import random

import pytest

from penstock.model.duration import SECOND
from penstock.model.window import Window
from penstock.reproduce.w11_workload import woven_queries
from penstock.share.weave.costs import Load, MeasuredCosts, Rates, UnitCosts
from penstock.share.weave.incremental import CostCurve, IncrementalPlanner
from penstock.share.weave.plan_queries import PlanQuery
from penstock.share.weave.tree_costs import TreeCosts
from penstock.share.weave.weaving import weave_share
from tests.share.weaving import EXAMPLE, small_workload


def check_plan(planner: IncrementalPlanner[int]) -> None:
    """Hold what a loom tells against a board laid out anew."""
    names = list(planner.woven_queries)
    place = {name: i for i, name in enumerate(names)}
    trees = [[place[name] for name in tree] for tree in planner.trees]
    assert sorted(i for tree in trees for i in tree) == list(range(len(names)))
    if names:
        fresh = TreeCosts([planner.woven_queries[n] for n in names], planner.costs, trees).woven()
        assert planner.cost == pytest.approx(fresh.cost)


def test_queries_come_and_go_and_the_trees_hold_just_those_that_are_there() -> None:
    draw, pool = random.Random(1), woven_queries(60, seed=4)
    planner: IncrementalPlanner[int] = IncrementalPlanner(UnitCosts(40.0), tolerance=math.inf)
    for name, woven_query in enumerate(pool):
        planner.add(name, woven_query)
        if len(planner.woven_queries) > 3 and draw.random() < 0.4:
            planner.drop(draw.choice(list(planner.woven_queries)))
        if name % 7 == 0:
            check_plan(planner)
    for name in list(planner.woven_queries):
        planner.drop(name)
    assert planner.trees == ()
    assert planner.cost == 0.0


def test_a_name_can_come_again() -> None:
    first, second, third = EXAMPLE
    planner = IncrementalPlanner(UnitCosts(0.3), {0: first, 1: second, 2: third})
    planner.drop(0)
    planner.add(0, second)
    check_plan(planner)
    assert {frozenset(tree) for tree in planner.trees} == {frozenset({0, 1}), frozenset({2})}


def test_a_new_query_joins_the_tree_it_weaves_best_with() -> None:
    first, second, third = EXAMPLE
    planner = IncrementalPlanner(UnitCosts(0.3), {0: first, 1: second})
    planner.add(2, third)
    assert {frozenset(tree) for tree in planner.trees} == {frozenset({0, 2}), frozenset({1})}


def test_new_conditions_groupings_and_slides_beyond_the_board_are_taken_in() -> None:
    costs = MeasuredCosts(Rates(), Load(100.0, (1.0, 50.0)))
    planner: IncrementalPlanner[int] = IncrementalPlanner(costs, tolerance=math.inf)
    draw = random.Random(7)
    for name in range(80):
        window = small_workload(draw, 2)[0][0].window
        planner.add(name, PlanQuery(window, draw.randrange(2), name // 2, "prefix"))
    check_plan(planner)


@pytest.mark.parametrize("slides", [(10, 1), (10, 2), (10, 3), (20, 15), (6, 4), (30, 10, 1)])
def test_a_slide_that_divides_those_before_is_taken_in(slides: tuple[int, ...]) -> None:
    """Edges are marked in granules that all slides so far have in common; a finer slide needs finer ones."""
    planner: IncrementalPlanner[int] = IncrementalPlanner(UnitCosts(40.0), tolerance=math.inf)
    for name, slide in enumerate(slides):
        planner.add(name, PlanQuery(Window(3 * slide * SECOND, slide * SECOND), 0, name, "prefix"))
        check_plan(planner)


def test_the_curve_extrapolates_along_the_slope_of_the_last_two_plans() -> None:
    curve = CostCurve()
    assert not curve.strayed(5, 1e9, 0.0)
    curve.note(10, 100.0)
    assert curve.expected(20) == pytest.approx(200.0)
    curve.note(20, 150.0)
    assert curve.expected(30) == pytest.approx(200.0)
    assert not curve.strayed(30, 239.0, 0.2)
    assert curve.strayed(30, 241.0, 0.2)
    curve.note(20, 160.0)
    assert curve.points == [(10, 100.0), (20, 160.0)]
    curve.note(21, 170.0)
    assert curve.expected(32) == pytest.approx(240.0)  # from 10 on: 20 and 21 are nearly alike


def test_without_tolerance_every_rise_is_woven_anew_and_with_all_of_it_none_is() -> None:
    pool = woven_queries(80, seed=6)
    counts = {}
    for tolerance in (0.0, 0.3, math.inf):
        planner = IncrementalPlanner(UnitCosts(50.0), dict(enumerate(pool[:40])), tolerance)
        for name, woven_query in enumerate(pool[40:], 40):
            planner.add(name, woven_query)
            if planner.owing:
                planner.reconstruct()
                offline = weave_share([planner.woven_queries[n] for n in planner.woven_queries], planner.costs)
                assert planner.cost == pytest.approx(offline.cost)
        counts[tolerance] = planner.reconstructions
    assert counts[0.0] >= counts[0.3] >= counts[math.inf] == 1


def test_a_plan_woven_aside_takes_in_what_came_meanwhile_and_leaves_out_what_went() -> None:
    pool = woven_queries(50, seed=8)
    planner = IncrementalPlanner(UnitCosts(50.0), dict(enumerate(pool[:40])), math.inf)
    aside = planner.woven()
    for name in range(40, 50):
        planner.add(name, pool[name])
    for name in range(0, 20, 2):
        planner.drop(name)
    planner.adopt(*aside)
    assert set(planner.woven_queries) == set(range(50)) - set(range(0, 20, 2))
    check_plan(planner)
