"""Every policy is what its formula says, declares truly what it depends on, and a new one is a file and a line."""

from __future__ import annotations

import random

import numpy as np
import pytest

from penstock.errors import ProjectError
from penstock.schedule import calendar
from penstock.schedule.clusters import full_scan, logarithmic, pruned, uniform
from penstock.schedule.policies.fas import fas
from penstock.schedule.policy import Head, Manner, Policy
from penstock.schedule.registry import POLICIES, policy_named
from penstock.schedule.sharing import Segment, Strategy, shared
from penstock.sim.arrivals import Arrivals
from penstock.sim.layout import SimSettings
from penstock.sim.network import Operator, SimQuery, network
from penstock.sim.run import run

S, C, T, WEIGHT, EXTRA, ARRIVAL, PENDING, DUE, NOW = 0.5, 4.0, 5.0, 0.5, 1.0, 3.0, 2.0, 20.0, 13.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HR", S / C),  # Eq. 3.1
        ("HNR", S / (C * T)),  # Eq. 3.4
        ("LSF", (NOW - ARRIVAL) / T),  # Eq. 3.6
        ("BSD", S / (C * T) * (NOW - ARRIVAL) / T),  # Eq. 3.7
        ("BRT", S / C * (NOW - ARRIVAL)),  # Eq. 3.8
        ("FAS-MCQ", WEIGHT * (1 - (1 - S) ** PENDING) / (PENDING * C)),  # Eq. 4.11 and 4.12
        ("FCFS", -ARRIVAL),
        ("EDF", -DUE),
    ],
)
def test_a_priority_is_what_the_paper_says(name: str, value: float) -> None:
    found = policy_named(name).priority(Head(S, C, T, WEIGHT, EXTRA, ARRIVAL, PENDING, DUE, NOW))
    assert found == pytest.approx(value)


def test_fas_between_response_and_freshness_is_equation_4_15_and_hr_at_zero() -> None:
    half = fas(0.5).priority(Head(S, C, T, 1.0, 0.5, ARRIVAL, 4.0, DUE, NOW))
    assert half == pytest.approx((1 - (1 - S) ** 2) / (2 * C))
    assert fas(0.0).priority(Head(S, C, T, 1.0, 0.0, ARRIVAL, 4.0, DUE, NOW)) == pytest.approx(S / C)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=str)
def test_a_policy_declares_what_it_depends_on(policy: Policy) -> None:
    def at(arrival: float, pending: float, due: float, now: float) -> float:
        return policy.priority(Head(S, C, T, WEIGHT, EXTRA, arrival, pending, due, now))

    if policy.manner in (Manner.STATIC, Manner.TURNS, Manner.HYBRID, Manner.FLUSH, Manner.FLUSH_HEADS):
        assert at(1, 2, 3, 4) == at(5, 6, 7, 8)
    if policy.manner is Manner.HEAD:
        assert at(1, 2, 3, 4) == at(1, 9, 3, 50)
    if policy.manner is Manner.QUEUE:
        assert at(1, 2, 3, 4) == at(1, 2, 3, 50)
    if policy.manner is Manner.AGING:
        assert at(1, 2, 3, 4) == pytest.approx(3 * at(0, 9, 9, 1))


def test_an_unknown_policy_is_refused_with_those_there_are() -> None:
    with pytest.raises(ProjectError, match='there is no policy "HRN"') as caught:
        policy_named("HRN")
    assert "BSD" in (caught.value.detail or "")


def cheapest(head: Head) -> float:
    return -head.cost


def test_a_new_policy_is_one_function_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Policy("Cheapest", "least expected cost first", cheapest, Manner.STATIC)
    monkeypatch.setitem(POLICIES, new.name, new)
    net = network([SimQuery("slow", (Operator(3.0),)), SimQuery("quick", (Operator(1.0),))])
    arrivals = Arrivals(np.zeros(2), np.zeros(2, dtype=np.int64))
    found = run(net, arrivals, np.ones((2, 1)), policy_named("cheapest"))
    assert found.query.tolist() == [1, 1, 0, 0]


# -- clusters and sharing (Sharaf 2007, §3.3.2 and §3.6) ---------------------------------------------------------


def test_pruning_finds_what_the_full_scan_finds() -> None:
    draw, fewer = np.random.default_rng(5), 0
    for _ in range(500):
        many = int(draw.integers(1, 30))
        pseudo, wait = draw.uniform(0.01, 10, many), draw.uniform(0, 10, many)
        wait[draw.random(many) < 0.3] = -1.0
        best, looked = full_scan(pseudo, wait)
        quick = pruned(pseudo, wait, np.argsort(-pseudo, kind="stable"), np.argsort(-wait))
        assert quick[0] == best
        fewer += quick[1] < looked
    assert fewer > 50


def test_logarithmic_clusters_hold_priorities_within_one_factor_and_uniform_ones_do_not() -> None:
    of, pseudo = logarithmic(np.array([1.0, 2.0, 9.0, 11.0, 50.0, 100.0]), 2)
    assert of.tolist() == [0, 0, 0, 1, 1, 1]
    assert pseudo.tolist() == pytest.approx([1, 10])
    assert uniform(np.array([1.0, 40.0, 60.0, 100.0]), 2)[0].tolist() == [0, 0, 1, 1]


def test_the_priority_defining_tree_stops_when_the_joint_priority_falls() -> None:
    segments = [Segment(1.0, 2.0), Segment(0.8, 2.0), Segment(0.01, 9.0)]
    found = shared(segments, 1.0, Strategy.PDT)
    assert found.chosen == (0, 1)
    assert found.priority == pytest.approx(1.8 / 3.0)  # the shared operator's cost counts once (Eq. 3.9)
    assert shared(segments, 1.0, Strategy.MAX).chosen == (0,)
    assert shared(segments, 1.0, Strategy.SUM).priority == pytest.approx(1.81 / 11.0)


def test_the_priority_defining_tree_is_never_below_max_or_sum() -> None:
    for seed in range(200):
        draw = random.Random(seed)
        cost = draw.uniform(0.1, 1)
        segments = [Segment(draw.uniform(0.01, 1), cost + draw.uniform(0, 5)) for _ in range(draw.randint(1, 8))]
        joint = {strategy: shared(segments, cost, strategy).priority for strategy in Strategy}
        assert joint[Strategy.PDT] >= max(joint[Strategy.MAX], joint[Strategy.SUM]) - 1e-12


# -- the calendar queue (Sharaf 2007, §4.4.1) --------------------------------------------------------------------


def test_a_calendar_gives_one_of_the_highest_day_and_of_these_the_one_that_came_first() -> None:
    draw, days = random.Random(7), 16
    day, before, after = (np.full(20, -1, dtype=np.int64) for _ in range(3))
    first, last = (np.full(days, -1, dtype=np.int64) for _ in range(2))
    waiting: list[tuple[int, int]] = []  # (day, number) in the order in which they came
    for _ in range(2_000):
        number = draw.randrange(20)
        calendar.leave(number, day, before, after, first, last)
        waiting = [entry for entry in waiting if entry[1] != number]
        if draw.random() < 0.7:
            today = calendar.day_of(draw.uniform(0.0, 1.0), 1.0, days)
            calendar.enter(number, today, day, before, after, first, last)
            waiting.append((today, number))
        highest = max((entry[0] for entry in waiting), default=-1)
        assert calendar.first_of(first) == next((n for d, n in waiting if d == highest), -1)


def test_days_hold_priorities_within_one_factor() -> None:
    days = [calendar.day_of(100.0 / 1.1**i, 100.0, 8) for i in (0, 1, 2, 6, 7, 50)]
    assert days == [7, 6, 5, 1, 0, 0]
    assert calendar.day_of(0.0, 1.0, 8) == 0


def test_a_calendar_is_refused_where_priorities_change_with_time() -> None:
    net = network([SimQuery("q", (Operator(1.0),))])
    with pytest.raises(ProjectError, match="BSD cannot use a calendar queue"):
        run(
            net,
            Arrivals(np.zeros(1), np.zeros(1, dtype=np.int64)),
            np.ones((1, 1)),
            policy_named("BSD"),
            SimSettings(calendar=True),
        )
