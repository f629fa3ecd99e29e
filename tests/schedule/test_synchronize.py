"""Schedule synchronization as Golab, Bijay and Özsu 2006 state it: costs, periods, and traces of Algorithms 1 to 3."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProjectError
from penstock.schedule import periods
from penstock.schedule.periods import (
    LONGEST,
    SubGroup,
    aggressive,
    chosen_periods,
    cost_rate,
    hybrid,
    partitions,
    sub_groups,
)
from penstock.schedule.running_together import (
    SYNCHRONIZATIONS,
    LiveSynchronization,
    Sharing,
    Waiting,
    companions,
    earliest,
    synchronization_named,
)
from penstock.schedule.synchronize import run_together
from penstock.sim.reexecution import TECHNIQUES

# Q1 … Q7 of §4.2: (window, slide) in minutes
SEVEN = [(10, 2), (5, 2), (6, 2), (15, 3), (12, 3), (20, 5), (30, 5)]


def test_sub_groups_cost_what_the_paper_says() -> None:
    assert [(g.period, g.cost, g.queries) for g in sub_groups(SEVEN)] == [(2, 9, 3), (3, 14, 2), (5, 29, 2)]


def test_conservative_scheduling_costs_358_in_half_an_hour() -> None:
    # The paper prints 11.63, one 9 too few.
    assert cost_rate(sub_groups(SEVEN)) * 30 == pytest.approx(358)


def test_two_sub_groups_cost_46_in_six_minutes_apart_and_7_a_minute_together() -> None:
    first, second, _ = sub_groups(SEVEN)
    assert cost_rate((first, second)) * 6 == pytest.approx(46)
    assert cost_rate((SubGroup(2, 15),)) == pytest.approx(7)


def test_the_five_choices_cost_what_the_paper_says_and_hybrid_takes_the_least() -> None:
    rates = sorted(cost_rate(p) for p in partitions(sub_groups(SEVEN)))
    assert rates == pytest.approx([11.4, 358 / 30, 38 / 3, 14.5, 101 / 6])
    chosen = hybrid(sub_groups(SEVEN))
    assert sorted((g.period, g.window, g.queries) for g in chosen) == [(2, 15, 5), (5, 30, 2)]


def test_the_search_over_many_sub_groups_is_near_the_least_of_all_ways() -> None:
    draw = np.random.default_rng(3)
    for _ in range(20):
        parts = sub_groups([(int(w), int(draw.integers(1, w // 2))) for w in draw.integers(20, 100, 6)])
        least = cost_rate(hybrid(parts))
        assert cost_rate(periods.searched(parts)) <= least * 1.02


def trace(periods: list[int], groups: list[int], sharing: Sharing, runs: list[int]) -> list[list[int]]:
    """Run so many times after each update; list what ran together."""
    until_due, chosen = np.array(periods), np.zeros(len(periods), dtype=np.bool_)
    found = []
    for many in runs:
        for _ in range(many):
            run_together(until_due, np.array(groups), np.zeros(len(periods)), int(sharing), chosen)
            found.append(np.flatnonzero(chosen).tolist())
            until_due[chosen] = np.array(periods)[chosen]
        until_due -= 1
    return found


def test_deadlines_are_kept_as_in_figure_3() -> None:
    """A slide of two updates: run after the update of t, due again before the third update after it.

    ::

        update   t      t+s    t+2s        t+3s
        d        2      1      0 run → 2
    """
    until_due, chosen = np.array([2]), np.zeros(1, dtype=np.bool_)
    until_due -= 1
    assert until_due.tolist() == [1]
    until_due -= 1
    assert until_due.tolist() == [0]
    run_together(until_due, np.array([0]), np.zeros(1), int(Sharing.NONE), chosen)
    assert chosen.tolist() == [True]


def test_algorithm_1_runs_one_task_at_a_time_the_earliest_deadline_first() -> None:
    assert trace([2, 3, 5], [0, 0, 0], Sharing.NONE, [0, 0, 1, 1, 1, 1]) == [[0], [1], [0], [2]]


def test_algorithm_2_joins_tasks_of_a_group_with_the_same_deadline() -> None:
    assert trace([2, 3, 2], [0, 0, 1], Sharing.SAME, [0, 0, 0, 0, 0, 0, 1]) == [[0]]  # d = -4, -3, -4: another group
    assert trace([3, 3, 5], [0, 0, 0], Sharing.SAME, [0, 0, 0, 1, 1]) == [[0, 1], [2]]


def test_late_sharing_joins_all_that_are_late() -> None:
    # After three updates: d = -1, 0, 2; after four: -2, -1, 1.
    assert trace([2, 3, 5], [0, 0, 0], Sharing.LATE, [0, 0, 0, 0, 1]) == [[0, 1]]
    assert trace([2, 3, 5], [0, 0, 0], Sharing.LATE, [0, 0, 0, 1]) == [[0]]


def test_algorithm_3_also_joins_what_is_due_now() -> None:
    assert trace([2, 3, 5], [0, 0, 0], Sharing.LATE_PENDING, [0, 0, 0, 1]) == [[0, 1]]
    # The state of Figure 4 (d): two sub-groups late, one pending, all together.
    assert trace([4, 4, 5], [0, 0, 0], Sharing.LATE_PENDING, [0, 0, 0, 0, 0, 1]) == [[0, 1, 2]]
    # Nothing late: only those with the same deadline.
    assert trace([2, 3, 5], [0, 0, 0], Sharing.LATE_PENDING, [0, 0, 1]) == [[0]]


def test_ties_go_to_the_higher_priority_then_to_the_first_named() -> None:
    chosen = np.zeros(3, dtype=np.bool_)
    ties = np.zeros(3, dtype=np.int64), np.arange(3), np.array([0.0, 2.0, 2.0])
    assert run_together(*ties, int(Sharing.SAME), chosen) == 1
    assert run_together(ties[0], ties[1], np.zeros(3), int(Sharing.SAME), chosen) == 0


# -- the engine's choice, in plain Python ----------------------------------------------------------------------------

tasks = st.lists(st.builds(Waiting, st.integers(-3, 3), st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=12)


@given(waiting=tasks, sharing=st.sampled_from(Sharing))
def test_the_engine_runs_together_what_the_simulator_does(waiting: list[Waiting], sharing: Sharing) -> None:
    until_due, group, priority = (np.array(column) for column in zip(*waiting, strict=True))
    chosen = np.zeros(len(waiting), dtype=np.bool_)
    best = run_together(until_due, group, priority.astype(np.float64), int(sharing), chosen)
    assert earliest(waiting) == best
    assert sorted([best, *companions(waiting, best, sharing)]) == np.flatnonzero(chosen).tolist()
    alone = [one for one in waiting if one.group == waiting[best].group]  # other groups change nothing
    place = earliest(alone)
    assert len(companions(alone, place, sharing)) == int(chosen.sum()) - 1


@given(waiting=tasks, place=st.integers(0, 11))
def test_whoever_chooses_late_and_pending_ones_join(waiting: list[Waiting], place: int) -> None:
    place %= len(waiting)
    same = [p for p, one in enumerate(waiting) if p != place and one.group == waiting[place].group]
    found = {sharing: set(companions(waiting, place, sharing)) for sharing in Sharing}
    assert found[Sharing.NONE] == set()
    assert found[Sharing.SAME] == {p for p in same if waiting[p].until_due == waiting[place].until_due}
    assert found[Sharing.SAME] <= found[Sharing.LATE] <= found[Sharing.LATE_PENDING]
    if any(waiting[p].until_due < 0 for p in (*same, place)):
        assert {p for p in same if waiting[p].until_due <= 0} <= found[Sharing.LATE_PENDING]


def test_the_engine_has_the_papers_techniques_and_h_lp_without_shorter_periods() -> None:
    named = {one.name: one for one in TECHNIQUES}
    assert SYNCHRONIZATIONS.keys() == {*named, "C-LP"}
    shared = {name: one.sharing for name, one in SYNCHRONIZATIONS.items() if name not in ("AS", "C-LP")}
    assert shared == {name: named[name].sharing for name in shared}
    assert SYNCHRONIZATIONS["C-LP"].sharing == named["H-LP"].sharing
    assert SYNCHRONIZATIONS["AS"].sharing == Sharing.SAME  # its whole group is several items, and one task of the paper
    assert {name: one.periods for name, one in SYNCHRONIZATIONS.items() if one.periods is not None} == {
        "AS": named["AS"].periods,
        **{name: named[name].periods for name in ("HS", "H-LS", "H-LP")},
    }
    assert LiveSynchronization().current().name == "C-LP"
    assert synchronization_named("no-s").name == "No-S"


windows = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 12)), min_size=1, max_size=9)


@given(asked=windows, choose=st.sampled_from([aggressive, hybrid]), tick=st.sampled_from([1, 1_000, 60_000_000]))
def test_the_engine_chooses_the_periods_that_the_simulator_does(
    asked: list[tuple[int, int]], choose: periods.Periods, tick: int
) -> None:
    asked = [*asked, (5, 1)]  # the synopsis is updated once a tick
    simulated = {slide: part.period for part in choose(sub_groups(asked)) for slide, _ in part.members}
    live = chosen_periods([(window * tick, slide * tick) for window, slide in asked], choose)
    assert {slide // tick: period // tick for slide, period in live.periods.items()} == simulated
    assert all(period <= slide for slide, period in live.periods.items())


def test_the_papers_seven_queries_get_the_periods_of_each_technique() -> None:
    minute = 60_000_000
    asked = [(window * minute, slide * minute) for window, slide in SEVEN]
    each = {choose: chosen_periods(asked, choose) for choose in (aggressive, hybrid)}
    assert dict(each[aggressive].periods) == {2 * minute: 2 * minute, 3 * minute: 2 * minute, 5 * minute: 2 * minute}
    assert dict(each[hybrid].periods) == {2 * minute: 2 * minute, 3 * minute: 2 * minute, 5 * minute: 5 * minute}
    assert [one.cost * 60 for one in each.values()] == pytest.approx([14.5, 11.4])
    assert each[hybrid].own_cost * 60 == pytest.approx(358 / 30)


def test_queries_that_run_too_seldom_to_be_compared_are_not_free() -> None:
    assert cost_rate([SubGroup(2 * LONGEST, 101)]) == pytest.approx(100 / (2 * LONGEST))


def test_a_technique_that_the_engine_does_not_have_is_refused_with_those_it_has() -> None:
    with pytest.raises(ProjectError, match='there is no technique "H-LX" to synchronize by') as unknown:
        synchronization_named("H-LX")
    assert "H-L" in str(unknown.value.hint)
