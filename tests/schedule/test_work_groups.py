"""What runs in one go: the first by the policy, and behind it what fits; more while nothing else can come before."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.schedule.ordering import ordered_without_starving
from penstock.schedule.policy import Head
from penstock.schedule.registry import POLICIES
from penstock.schedule.work_groups import (
    GROUP_S,
    GROWTH,
    LITTLE_S,
    SKIPPED,
    ItemArrays,
    ItemFacts,
    due_with_their_group,
    first_group,
    longest,
)

NOW_US = 100_000_000
FCFS = POLICIES["FCFS"]


def item(number: int, seconds: float, waited_s: float = 1.0) -> ItemFacts:
    final_us = NOW_US - round(1e6 * waited_s)
    return ItemFacts(seconds, seconds, 1.0, 1, 1, final_us, final_us + 1_000_000, number)


def group(items: list[ItemFacts], policy: str = "FCFS", beside: list[Head] | None = None) -> list[int]:
    known = ItemArrays.of(items)
    return first_group(POLICIES[policy], known, known.heads(NOW_US), -1, beside=beside or [])


def test_a_dear_item_waits_for_the_next_group_and_what_comes_after_it_still_fits() -> None:
    assert group([item(0, 0.001, 3.0), item(1, 0.040, 2.0), item(2, 0.001, 1.0)]) == [0, 2]


def test_a_dear_item_that_comes_first_runs_and_takes_along_what_fits() -> None:
    assert group([item(0, 0.040, 3.0), item(1, 0.030, 2.0), item(2, 0.009, 1.0)]) == [0, 2]


def test_an_item_longer_than_a_group_runs_alone() -> None:
    assert group([item(0, 0.2, 3.0), item(1, 0.001, 2.0)]) == [0]


def test_only_so_many_items_are_passed_over() -> None:
    dear = [item(n, 0.040, 50.0 - n) for n in range(1, SKIPPED + 1)]
    assert group([item(0, 0.001, 60.0), *dear, item(99, 0.001, 1.0)]) == [0]
    assert group([item(0, 0.001, 60.0), *dear[:-1], item(99, 0.001, 1.0)]) == [0, SKIPPED]


def test_nothing_behind_a_batch_that_is_more_urgent_joins_a_group() -> None:
    batch = Head(1.0, 0.1, 0.1, 1.0, 1.0, (NOW_US - 2_500_000) / 1e6, 1.0, NOW_US / 1e6, NOW_US / 1e6)
    assert group([item(0, 0.001, 3.0), item(1, 0.001, 2.0)], beside=[batch]) == [0]


@given(
    st.lists(st.tuples(st.floats(1e-5, 0.2), st.floats(0.0, 9.0)), min_size=1, max_size=40),
    st.sampled_from(["FCFS", "HNR", "LSF", "BSD", "EDF", "Hybrid"]),
)
def test_the_first_in_order_always_runs_and_a_group_stays_short(asked: list[tuple[float, float]], policy: str) -> None:
    items = [item(number, *each) for number, each in enumerate(asked)]
    chosen = group(items, policy)
    known = ItemArrays.of(items)
    heads = known.heads(NOW_US)
    heads = due_with_their_group(known, heads) if policy == "Hybrid" else heads
    assert chosen[0] == next(ordered_without_starving(POLICIES[policy], heads))
    assert len(set(chosen)) == len(chosen)
    seconds = [items[place].seconds for place in chosen]
    assert len(chosen) == 1 or sum(seconds) <= GROUP_S
    assert all(later <= max(LITTLE_S, sum(seconds[:n])) for n, later in enumerate(seconds) if n)


def due_in(number: int, seconds: float, soon_s: float) -> ItemFacts:
    """Describe an item that became final just now."""
    return item(number, seconds, 0.0)._replace(due_us=NOW_US + round(1e6 * soon_s))


def test_hybrid_does_not_begin_with_what_is_late_when_its_group_ends() -> None:
    """Four could each be done just before its deadline, one after the other; five have time until a group ends."""
    tight = [due_in(number, 0.013, 0.001 + 0.013 * (number + 1)) for number in range(4)]
    others = [due_in(number, 0.01, 0.052) for number in range(4, 9)]
    known = ItemArrays.of([*tight, *others])
    first = next(ordered_without_starving(POLICIES["Hybrid"], known.heads(NOW_US)))
    assert first == 0  # by itself it would be in time
    assert group([*tight, *others], "Hybrid") == [4, 5, 6, 7, 8]


def test_what_is_answered_alone_or_with_little_may_be_answered_just_before_its_deadline() -> None:
    known = ItemArrays.of([due_in(0, 0.001, 0.005), due_in(1, 0.002, 1.0)])
    heads = known.heads(NOW_US)
    assert due_with_their_group(known, heads).due - heads.due == pytest.approx([-0.002, -0.001])
    dear = ItemArrays.of([due_in(0, 3 * GROUP_S, 0.2), due_in(1, GROUP_S / 4, 0.2)])
    moved = due_with_their_group(dear, dear.heads(NOW_US)).due - dear.heads(NOW_US).due
    assert moved == pytest.approx([0.0, -0.75 * GROUP_S])


def run_all(seconds: list[float], *, grow: bool) -> list[list[int]]:
    """Run items that became final together one group after the other, and list the groups."""
    left, found, passed = list(range(len(seconds))), list[list[int]](), 0.0
    while left:
        known = ItemArrays.of([item(one, seconds[one], passed) for one in left])
        places = first_group(FCFS, known, known.heads(NOW_US), -1, waited_s=passed if grow else 0.0)
        found.append([left[place] for place in places])
        passed += sum(seconds[left[place]] for place in places)
        left = [one for one in left if one not in found[-1]]
    return found


def test_groups_double_while_nothing_else_can_come() -> None:
    alike = [GROUP_S / 5.01] * 200
    sizes = [len(group) for group in run_all(alike, grow=True)]
    assert sizes[:2] == [5, 5]
    assert all(1.8 * before <= after <= 2 * before + 1 for before, after in pairwise(sizes[1:-1]))  # sums are rounded
    assert len(sizes) == 7
    assert {len(group) for group in run_all(alike, grow=False)} == {5}


def test_a_dear_item_joins_cheap_ones_once_they_have_waited_as_long() -> None:
    dear = 6 * GROUP_S
    assert run_all([GROUP_S, dear, GROUP_S], grow=True) == [[0], [1], [2]]
    assert run_all([dear, GROUP_S, dear / 2, GROUP_S], grow=True) == [[0], [1, 2, 3]]
    assert run_all([dear, GROUP_S, dear / 2, GROUP_S], grow=False) == [[0], [1], [2], [3]]


def test_a_group_never_takes_more_than_a_second_together() -> None:
    assert longest(GROUP_S, 1e6) == GROWTH * GROUP_S
    assert longest(0.0, 1e6) == 0.0  # nothing is to run together


@given(st.lists(st.floats(0.0001, 0.5), min_size=1, max_size=60))
def test_nobody_waits_more_than_twice_as_long_for_those_in_the_same_group(seconds: list[float]) -> None:
    passed = 0.0
    for group in run_all(seconds, grow=True):
        own = 0.0
        for one in group:
            own += seconds[one]
            before = passed + own  # when it would have been done, had the group ended with it
        first_done = passed + seconds[group[0]]
        assert before <= 2 * max(first_done, GROUP_S) + 1e-9
        passed = before


@pytest.mark.parametrize("waited", [0.0, 3.0])
def test_all_items_run_in_the_order_of_the_policy(waited: float) -> None:
    known = ItemArrays.of([item(number, 0.001, waited) for number in range(7)])
    assert first_group(FCFS, known, known.heads(NOW_US), -1, waited_s=waited) == list(range(7))
