"""What runs together in one go: little at first, and more while nothing else can come before all has run."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.schedule.policy import Head
from penstock.schedule.registry import POLICIES
from penstock.schedule.work_groups import GROUP_S, GROWTH, first_group, item_head, longest

FCFS = POLICIES["FCFS"]


def heads(seconds: list[float], waited: float) -> list[Head]:
    """Describe items of one window and one query each, that became final together."""
    now_us = 1_000_000_000
    final_us = now_us - round(waited * 1e6)
    return [item_head(one, 1.0, 1, 1, final_us, now_us + 60_000_000, now_us) for one in seconds]


def groups(seconds: list[float], *, grow: bool) -> list[list[int]]:
    """Run items one group after the other, and list the groups."""
    left, found, passed = list(range(len(seconds))), list[list[int]](), 0.0
    while left:
        mine = [seconds[one] for one in left]
        places = first_group(FCFS, heads(mine, passed), mine, left, -1, waited_s=passed if grow else 0.0)
        found.append([left[place] for place in places])
        passed += sum(mine[place] for place in places)
        left = [one for one in left if one not in found[-1]]
    return found


def test_groups_double_while_nothing_else_can_come() -> None:
    alike = [GROUP_S / 5.01] * 200
    sizes = [len(group) for group in groups(alike, grow=True)]
    assert sizes[:2] == [5, 5]
    assert all(before < after <= 2 * before + 1 for before, after in pairwise(sizes[1:-1]))
    assert len(sizes) <= 8
    assert {len(group) for group in groups(alike, grow=False)} == {5}


def test_a_dear_item_joins_cheap_ones_once_they_have_waited_as_long() -> None:
    dear = 6 * GROUP_S
    assert groups([GROUP_S, dear, GROUP_S], grow=True) == [[0], [1], [2]]
    assert groups([dear, GROUP_S, dear / 2, GROUP_S], grow=True) == [[0], [1, 2, 3]]
    assert groups([dear, GROUP_S, dear / 2, GROUP_S], grow=False) == [[0], [1], [2], [3]]


def test_a_group_never_takes_more_than_a_second_together() -> None:
    assert longest(GROUP_S, 1e6) == GROWTH * GROUP_S
    assert longest(0.0, 1e6) == 0.0  # nothing is to run together


@given(st.lists(st.floats(0.0001, 0.5), min_size=1, max_size=60))
def test_nobody_waits_more_than_twice_as_long_for_those_in_the_same_group(seconds: list[float]) -> None:
    passed = 0.0
    for group in groups(seconds, grow=True):
        own = 0.0
        for one in group:
            own += seconds[one]
            before = passed + own  # when it would have been done, had the group ended with it
        first_done = passed + seconds[group[0]]
        assert before <= 2 * max(first_done, GROUP_S) + 1e-9
        passed = before


@pytest.mark.parametrize("waited", [0.0, 3.0])
def test_all_items_run_in_the_order_of_the_policy(waited: float) -> None:
    mine = [0.001] * 7
    assert first_group(FCFS, heads(mine, waited), mine, range(7), -1, waited_s=waited) == list(range(7))
