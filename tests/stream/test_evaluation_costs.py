"""What windows are expected to take is learnt as a line: a part for the run, and a part for each window."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.answering import Spent
from penstock.stream.evaluation_costs import TIMES, WindowCost
from tests.stream.made import MadeStream, row

FIXED_S, EACH_S = 0.004, 0.001
EXACT = "SELECT k, median(v) AS m FROM s [RANGE 2 s SLIDE 2 s] GROUP BY k"


def learnt(runs: list[tuple[int, float]]) -> WindowCost:
    cost = WindowCost(1.0)
    for windows, seconds in runs:
        cost.learn(windows, seconds)
    return cost


@given(
    fixed=st.floats(0, 1),
    each=st.floats(0.001, 1),
    several=st.lists(st.integers(2, 50), min_size=1, max_size=TIMES - 1),
)
def test_runs_of_one_window_and_of_several_tell_both_parts(fixed: float, each: float, several: list[int]) -> None:
    runs = [(number, fixed + number * each) for number in (*several, *[1] * (TIMES - len(several)))]
    random.Random(1).shuffle(runs)
    assert learnt(runs).of(7) == pytest.approx(fixed + 7 * each)


@pytest.mark.parametrize("windows", [1, 4])
def test_a_run_that_was_disturbed_changes_nothing(windows: int) -> None:
    undisturbed = [(number, FIXED_S + number * EACH_S) for number in (1, 4, 1, 4, 1, 4, 1)]
    cost = learnt([*undisturbed, (windows, 5.0)])
    assert [cost.fixed, cost.each] == pytest.approx([FIXED_S, EACH_S])


def test_one_window_that_was_disturbed_is_not_believed_to_take_longer_than_several() -> None:
    cost = learnt([(4, FIXED_S + 4 * EACH_S)] * (TIMES - 1) + [(1, 5.0)])
    assert cost.seconds <= FIXED_S + 4 * EACH_S


def test_where_all_runs_are_of_as_many_windows_each_takes_its_share() -> None:
    cost = learnt([(4, 0.008)] * TIMES)
    assert [cost.fixed, cost.seconds] == pytest.approx([0, 0.002])


@given(runs=st.lists(st.tuples(st.integers(1, 9), st.floats(0, 10)), min_size=1, max_size=20))
def test_no_part_of_a_cost_is_negative(runs: list[tuple[int, float]]) -> None:
    cost = learnt(runs)
    assert cost.known
    assert cost.fixed >= 0
    assert cost.each >= 0


def test_windows_that_wait_together_are_expected_to_take_the_fixed_part_once(tmp_path: Path) -> None:
    made = MadeStream(tmp_path)
    made.create("q", "SELECT k, sum(v) AS x FROM s [RANGE 2 s SLIDE 2 s] GROUP BY k")
    made.runner.let_answers_lag(may=True)
    unanswered, order = made.pipeline.committer.unanswered, made.pipeline.committer.order
    made.feed(row(1), row(3))
    [first] = unanswered.pending()
    order.costs.of(first)
    order.costs.note([Spent(first.definition.id, number, FIXED_S + number * EACH_S) for number in (1, 4)])
    made.feed(row(5))
    made.feed(row(7), row(9))
    [item] = unanswered.items.values()
    windows = sum(len(one.ends) for one in item.members)
    assert windows > len(item.members) > 1
    assert item.seconds == pytest.approx(FIXED_S + windows * EACH_S)
    assert item.round_s == pytest.approx(FIXED_S + EACH_S)
    assert order.costs.expected(item.members) == {first.definition.id: pytest.approx(item.seconds / windows)}
    now, later = order.cut(item, item.members[0].ends.last_us)
    assert now is not None
    assert later is not None
    assert now.seconds + later.seconds == pytest.approx(item.seconds + FIXED_S)
