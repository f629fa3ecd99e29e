"""Strands that come and go: each is taken in at once, and the plan stays near what weaving from scratch gives."""

from __future__ import annotations

import math
import random

import pytest

from penstock.model.duration import SECOND
from penstock.model.window import Window
from penstock.reproduce.w11_workload import strands
from penstock.share.weave.costs import Load, MeasuredCosts, Rates, UnitCosts
from penstock.share.weave.incremental import CostCurve, IncrementalPlanner
from penstock.share.weave.plan_queries import PlanQuery
from penstock.share.weave.tree_costs import TreeCosts
from penstock.share.weave.weaving import weave_share
from tests.share.weaving import EXAMPLE, small_workload


def check_plan(loom: IncrementalPlanner[int]) -> None:
    """Hold what a loom tells against a board laid out anew."""
    names = list(loom.strands)
    place = {name: i for i, name in enumerate(names)}
    trees = [[place[name] for name in tree] for tree in loom.trees]
    assert sorted(i for tree in trees for i in tree) == list(range(len(names)))
    if names:
        fresh = TreeCosts([loom.strands[n] for n in names], loom.costs, trees).woven()
        assert loom.cost == pytest.approx(fresh.cost)


def test_strands_come_and_go_and_the_trees_hold_just_those_that_are_there() -> None:
    draw, pool = random.Random(1), strands(60, seed=4)
    loom: IncrementalPlanner[int] = IncrementalPlanner(UnitCosts(40.0), tolerance=math.inf)
    for name, strand in enumerate(pool):
        loom.add(name, strand)
        if len(loom.strands) > 3 and draw.random() < 0.4:
            loom.drop(draw.choice(list(loom.strands)))
        if name % 7 == 0:
            check_plan(loom)
    for name in list(loom.strands):
        loom.drop(name)
    assert loom.trees == ()
    assert loom.cost == 0.0


def test_a_name_can_come_again() -> None:
    first, second, third = EXAMPLE
    loom = IncrementalPlanner(UnitCosts(0.3), {0: first, 1: second, 2: third})
    loom.drop(0)
    loom.add(0, second)
    check_plan(loom)
    assert {frozenset(tree) for tree in loom.trees} == {frozenset({0, 1}), frozenset({2})}


def test_a_new_strand_joins_the_tree_it_weaves_best_with() -> None:
    first, second, third = EXAMPLE
    loom = IncrementalPlanner(UnitCosts(0.3), {0: first, 1: second})
    loom.add(2, third)
    assert {frozenset(tree) for tree in loom.trees} == {frozenset({0, 2}), frozenset({1})}


def test_new_conditions_groupings_and_slides_beyond_the_board_are_taken_in() -> None:
    costs = MeasuredCosts(Rates(), Load(100.0, (1.0, 50.0)))
    loom: IncrementalPlanner[int] = IncrementalPlanner(costs, tolerance=math.inf)
    draw = random.Random(7)
    for name in range(80):
        window = small_workload(draw, 2)[0][0].window
        loom.add(name, PlanQuery(window, draw.randrange(2), name // 2, "prefix"))
    check_plan(loom)


@pytest.mark.parametrize("slides", [(10, 1), (10, 2), (10, 3), (20, 15), (6, 4), (30, 10, 1)])
def test_a_slide_that_divides_those_before_is_taken_in(slides: tuple[int, ...]) -> None:
    """Edges are marked in granules that all slides so far have in common; a finer slide needs finer ones."""
    loom: IncrementalPlanner[int] = IncrementalPlanner(UnitCosts(40.0), tolerance=math.inf)
    for name, slide in enumerate(slides):
        loom.add(name, PlanQuery(Window(3 * slide * SECOND, slide * SECOND), 0, name, "prefix"))
        check_plan(loom)


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
    pool = strands(80, seed=6)
    counts = {}
    for tolerance in (0.0, 0.3, math.inf):
        loom = IncrementalPlanner(UnitCosts(50.0), dict(enumerate(pool[:40])), tolerance)
        for name, strand in enumerate(pool[40:], 40):
            loom.add(name, strand)
            if loom.owing:
                loom.reconstruct()
                offline = weave_share([loom.strands[n] for n in loom.strands], loom.costs)
                assert loom.cost == pytest.approx(offline.cost)
        counts[tolerance] = loom.reconstructions
    assert counts[0.0] >= counts[0.3] >= counts[math.inf] == 1


def test_a_plan_woven_aside_takes_in_what_came_meanwhile_and_leaves_out_what_went() -> None:
    pool = strands(50, seed=8)
    loom = IncrementalPlanner(UnitCosts(50.0), dict(enumerate(pool[:40])), math.inf)
    aside = loom.woven()
    for name in range(40, 50):
        loom.add(name, pool[name])
    for name in range(0, 20, 2):
        loom.drop(name)
    loom.adopt(*aside)
    assert set(loom.strands) == set(range(50)) - set(range(0, 20, 2))
    check_plan(loom)
