"""Adaptive scheduling as Sharaf 2007 §3.8.5 describes it, and what its reproduction rests on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.reproduce import g06
from penstock.reproduce.figure import Judge, Size
from penstock.reproduce.s07_adapt import AdaptiveRun, both_ways, measured, ratio
from penstock.sim import fates
from penstock.sim.network import Operator, SimQuery

SMALL = Size(tuples=6_000, queries=20, say=lambda _: None)


def test_the_mean_moves_with_time_and_not_with_tuples() -> None:
    times = np.concatenate([np.linspace(0.0, 1.0, 9_000, endpoint=False), np.linspace(1.0, 10.0, 1_000)])
    values = fates.moving_gaussian(times, 1, 1, spread=0.001, intervals=10) * 100
    assert np.allclose(values[:9_000], 50, atol=0.1)
    assert np.allclose(values[-1], 59, atol=0.1)


def test_queries_that_look_the_other_way_test_mirrored_attributes() -> None:
    queries = [SimQuery(f"q{i}", (Operator(1.0, 0.5, 0), Operator(1.0, 0.5, 1))) for i in range(100)]
    turned = [tuple(o.attribute for o in q.operators) for q in both_ways(queries, 1)]
    assert set(turned) == {(0, 1), (3, 4)}
    assert 30 < turned.count((3, 4)) < 70


def test_a_past_that_weighs_all_is_static_order() -> None:
    case = AdaptiveRun("HNR", past=1.0)
    assert measured(SMALL, case) == pytest.approx(measured(SMALL, case.static))


def test_with_one_cost_there_is_little_to_learn() -> None:
    assert ratio(SMALL, AdaptiveRun("HR", one_cost=True)) == pytest.approx(100, abs=3)
    assert ratio(SMALL, AdaptiveRun("HR")) < 90


@pytest.mark.soak
def test_claims_about_costs_left_open_are_judged_alike_at_every_cost() -> None:
    told = g06.by_cost(1)
    assert "3.5 µs: 10 (6-3, 8-2 not)" in told
    assert "2.1 µs: 8 (5-2, 5-3, 7-3, 8-2 not)" in told


def test_a_percentage_holds_by_sign_and_within_fifteen_points() -> None:
    judge = Judge("s07", "Figure 1")
    verdicts = [judge.percent(1, "x", stated, found).verdict for stated, found in [(10, 25), (10, 25.1), (10, -1)]]
    assert verdicts == ["holds", "differs", "differs"]
    claim = replace(judge, place="Figure 2").percent(3, "lower at 0.9", 40, 1)
    assert (claim.id, claim.stated, claim.measured) == ("s07-figure-2-3", "lower at 0.9: 40 %", "1 %")
