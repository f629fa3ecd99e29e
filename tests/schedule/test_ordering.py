"""The live engine orders what waits as the policies say, and as the simulator does."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.errors import Unsupported
from penstock.schedule import ordering
from penstock.schedule.live_policy import LivePolicy, live_policy_named
from penstock.schedule.ordering import STARVING_S, STARVING_TIMES, is_live
from penstock.schedule.policy import Head, Heads, Manner, Policy
from penstock.schedule.registry import POLICIES

LIVE = [name for name, policy in POLICIES.items() if is_live(policy)]
NOW = 100.0


def head(cost: float = 1.0, **about: float) -> Head:
    known = {"selectivity": 1.0, "ideal": cost, "weight": 1.0, "extra": cost, "arrival": NOW - 1, "pending": 1.0}
    return Head(**{**known, "cost": cost, "due": NOW + 10, "now": NOW, **about})


def ordered(policy: Policy, waiting: list[Head], turn: int = 0) -> list[int]:
    return list(ordering.ordered(policy, Heads.of(waiting), turn))


heads = st.lists(
    st.builds(
        lambda cost, selectivity, waited, soon, weight: head(
            cost, selectivity=selectivity, arrival=NOW - waited, due=NOW + soon, weight=float(weight)
        ),
        st.floats(0.01, 10.0),
        st.floats(0.01, 1.0),
        st.floats(0.01, 50.0),
        st.floats(-20.0, 20.0),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("name", LIVE)
@given(waiting=heads)
def test_every_item_runs_once(name: str, waiting: list[Head]) -> None:
    assert sorted(ordered(POLICIES[name], waiting)) == list(range(len(waiting)))


@pytest.mark.parametrize("name", [name for name in LIVE if POLICIES[name].manner not in (Manner.TURNS, Manner.HYBRID)])
@given(waiting=heads)
def test_the_first_has_the_highest_priority(name: str, waiting: list[Head]) -> None:
    alike = [one._replace(weight=1.0, extra=one.cost if name == "SRPT" else 1.0) for one in waiting]
    ranks = [POLICIES[name].priority(one) for one in alike]
    best = ordered(POLICIES[name], alike)[0]
    assert ranks[best] == max(ranks)
    assert (alike[best].arrival, best) == min(
        (one.arrival, place) for place, one in enumerate(alike) if ranks[place] == max(ranks)
    )


@given(waiting=heads)
@example([head(5.0, due=NOW + 4), head(1.0, due=NOW - 3), head(2.0, due=NOW + 2)])  # late behind one that is not
def test_hybrid_chooses_each_time_as_its_definition_says(waiting: list[Head]) -> None:
    alike = [one._replace(weight=1.0, extra=one.cost * (1 + place % 3)) for place, one in enumerate(waiting)]
    now, left = NOW, list(range(len(waiting)))
    for chosen in ordered(POLICIES["Hybrid"], alike):  # what counts is the time for all that waits of an item
        early = [p for p in left if now + alike[p].extra <= alike[p].due]
        late = [p for p in left if p not in early]
        soonest = min(early, key=lambda p: (alike[p].due, alike[p].arrival, p), default=None)
        fastest = min(late, key=lambda p: (-alike[p].selectivity / alike[p].cost, alike[p].arrival, p), default=None)
        if soonest is None or fastest is None:
            expected = soonest if fastest is None else fastest
        else:
            expected = fastest if now + alike[fastest].extra < alike[soonest].due else soonest
        assert chosen == expected
        left.remove(chosen)
        now += alike[chosen].extra


@pytest.mark.parametrize("name", [name for name in LIVE if POLICIES[name].manner != Manner.TURNS])
def test_of_two_that_are_alike_the_one_of_higher_priority_goes_first(name: str) -> None:
    waiting = [head(due=NOW + 2.0), head(due=NOW + 2.0, weight=3.0), head(due=NOW + 2.0)]
    assert ordered(POLICIES[name], waiting)[0] == 1


def test_queries_take_turns() -> None:
    assert ordered(POLICIES["RR"], [head()] * 4, turn=2) == [2, 3, 0, 1]


def test_highest_normalized_rate_runs_a_cheap_alert_before_a_dear_report_that_came_first() -> None:
    report, alert = head(20.0, arrival=NOW - 9), head(0.1, arrival=NOW - 1)
    assert ordered(POLICIES["HNR"], [report, alert]) == [1, 0]
    assert ordered(POLICIES["FCFS"], [report, alert]) == [0, 1]


@pytest.mark.parametrize("name", LIVE)
@given(waiting=heads)
def test_what_has_waited_far_too_long_goes_first_as_it_came_and_all_else_by_the_policy(
    name: str, waiting: list[Head]
) -> None:
    starving = {p for p, one in enumerate(waiting) if NOW - one.arrival > max(STARVING_S, STARVING_TIMES * one.cost)}
    found = list(ordering.ordered_without_starving(POLICIES[name], Heads.of(waiting)))
    assert found[: len(starving)] == sorted(starving, key=lambda p: (waiting[p].arrival, p))
    assert found[len(starving) :] == [p for p in ordered(POLICIES[name], waiting) if p not in starving]


def test_a_policy_of_operators_is_refused_by_an_engine_with_those_that_it_has() -> None:
    with pytest.raises(Unsupported, match='policy "Chain" orders the queues of operators') as raised:
        live_policy_named("chain")
    assert "Hybrid" in str(raised.value.detail)


def test_a_policy_is_changed_while_it_holds() -> None:
    policy = LivePolicy("FCFS")
    policy.change("hnr")
    assert policy.current().name == "HNR"
