"""A trace is replayed by the rules of the live desk: exact on traces made by hand, and work is conserved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.schedule.ordering import is_live
from penstock.schedule.recorded import RecordedStep, RecordedWindows, Recording
from penstock.schedule.registry import POLICIES
from penstock.schedule.work_groups import GROUP_S
from penstock.sim.recorded_costs import CostLine, RecordedCosts, fitted
from penstock.sim.replay import Replayed, replay
from penstock.sim.replay_figures import (
    Agreement,
    Spread,
    live_figures,
    mean_response_by_query,
    replayed_figures,
)

SECOND = 1_000_000
LIVE = [name for name, policy in POLICIES.items() if is_live(policy)]


def windows(
    group: int,
    began: float,
    ended: float,
    *,
    item: int,
    final: float = 0.0,
    due: float = 100.0,
    queries: Sequence[int] | None = None,
    number: int = 1,
    ends: tuple[int, int] = (0, 0),
    priority: float = 1.0,
    expected: float | None = None,
    spent: float | None = None,
    stream: str = "s",
    policy: str = "FCFS",
) -> RecordedWindows:
    """Make windows of one item; times are in seconds, and they take all of their group unless it is said."""
    of = (item,) if queries is None else tuple(queries)
    times = round(began * SECOND), round(ended * SECOND)
    wanted = round(final * SECOND), round(due * SECOND)
    took = ended - began if spent is None else spent
    known = priority, took if expected is None else expected, took
    return RecordedWindows(7, group, stream, policy, *times, item, of, number, *ends, *wanted, *known)


def step(wanted: float, began: float, ended: float, stream: str = "s") -> RecordedStep:
    return RecordedStep(7, stream, *(round(time * SECOND) for time in (wanted, began, ended)))


def order(replayed: Replayed) -> list[list[int]]:
    """List the items of every group."""
    return [[item for _, _, item in group] for group in replayed.groups]


def done(replayed: Replayed, recording: Recording) -> dict[int, float]:
    """Return when the last window of each item was answered, in seconds."""
    return {recording.windows[one.place].item: one.done_us / SECOND for one in replayed.answered}


# Three items that became final together: a long report, an alert, and something between, in the order of FCFS.
#
#     live:  |--- report 4 s ---| alert 1 s |- middle 2 s -|
MIDNIGHT = Recording(
    [
        windows(0, 0, 4, item=0, due=3),
        windows(1, 4, 5, item=1, due=100),
        windows(2, 5, 7, item=2, due=3.5),
    ]
)


@pytest.mark.parametrize(
    ("policy", "first_to_last"),
    [
        ("FCFS", {0: 4.0, 1: 5.0, 2: 7.0}),  # of equals, the one that is named first
        ("SRPT", {1: 1.0, 2: 3.0, 0: 7.0}),  # the shortest first
        ("HNR", {1: 1.0, 2: 3.0, 0: 7.0}),  # the one that it slows down most, by one over its time squared
        ("EDF", {0: 4.0, 2: 6.0, 1: 7.0}),  # by deadline, also what is late already
        ("Hybrid", {2: 2.0, 0: 6.0, 1: 7.0}),  # the report is late in any case: the middle one can still be in time
    ],
)
def test_items_that_are_due_together_run_in_the_order_of_the_policy(
    policy: str, first_to_last: dict[int, float]
) -> None:
    assert done(replay(MIDNIGHT, POLICIES[policy]), MIDNIGHT) == first_to_last


def test_the_policy_that_ran_gives_what_ran() -> None:
    costs, again = RecordedCosts.of(MIDNIGHT), replay(MIDNIGHT, POLICIES["FCFS"])
    live, same = live_figures(MIDNIGHT, costs), replayed_figures(MIDNIGHT, costs, again)
    assert (live.response, live.slowdown, live.tardiness, live.kept) == (
        same.response,
        same.slowdown,
        same.tardiness,
        same.kept,
    )
    assert live.response == Spread((4 + 5 + 7) / 3, 5.0, None, 7.0)  # three answers have no 95th percentile
    assert live.slowdown.maximum == 5.0  # of the alert
    assert live.tardiness.mean == pytest.approx((1 + 0 + 3.5) / 3)
    assert live.kept == pytest.approx(1 / 3)
    assert Agreement.of(live.response, same.response) == Agreement(0.0, None)


def test_figures_of_another_policy_stand_beside() -> None:
    costs = RecordedCosts.of(MIDNIGHT)
    hnr = replayed_figures(MIDNIGHT, costs, replay(MIDNIGHT, POLICIES["HNR"], costs))
    assert hnr.response.mean == pytest.approx((1 + 3 + 7) / 3)
    assert hnr.kept == pytest.approx(2 / 3)  # all but the report
    assert hnr.as_dict()["response"]["maximum"] == 7.0
    assert mean_response_by_query(MIDNIGHT) == {0: 4.0, 1: 5.0, 2: 7.0}
    assert mean_response_by_query(MIDNIGHT, replay(MIDNIGHT, POLICIES["HNR"])) == {1: 1.0, 2: 3.0, 0: 7.0}


@pytest.mark.parametrize("policy", ["FCFS", "HNR", "BSD", "EDF", "Hybrid"])
def test_a_priority_lets_windows_go_before_others_like_them(policy: str) -> None:
    alike = [windows(n, n, n + 1, item=n, final=0.5, due=3, priority=w) for n, w in enumerate((1.0, 1.0, 3.0), 1)]
    recording = Recording([windows(0, 0, 1, item=0, due=1), *alike])
    assert order(replay(recording, POLICIES[policy]))[:2] == [[0], [3]]


def test_a_group_is_not_interrupted_and_what_comes_meanwhile_is_chosen_at_its_end() -> None:
    recording = Recording([windows(0, 0, 4, item=0), windows(1, 4, 5, item=1, final=1), windows(2, 5, 6, item=2)])
    assert order(replay(recording, POLICIES["SRPT"])) == [[2], [1], [0]]  # both are shorter
    assert order(replay(recording, POLICIES["FCFS"])) == [[0], [2], [1]]


def test_a_policy_chooses_by_what_the_engine_believed_and_not_by_what_things_took() -> None:
    recording = Recording([windows(0, 0, 4, item=0, expected=0.5), windows(1, 4, 5, item=1, expected=3)])
    assert done(replay(recording, POLICIES["SRPT"]), recording) == {0: 4.0, 1: 5.0}


def test_what_was_believed_to_say_something_seldom_comes_after_what_costs_as_much() -> None:
    seldom, often = windows(0, 0, 4, item=0, expected=2), windows(1, 4, 8, item=1, expected=2)
    recording = Recording([replace(seldom, selectivity=0.25), often])
    assert order(replay(recording, POLICIES["HR"])) == [[1], [0]]
    assert order(replay(recording, POLICIES["SRPT"])) == [[0], [1]]  # which looks at the time alone


def test_items_that_fit_into_one_go_are_a_group() -> None:
    third = 0.3 * GROUP_S
    some = [windows(n, n * third, (n + 1) * third, item=n) for n in range(5)]
    assert order(replay(Recording(some), POLICIES["FCFS"])) == [[0, 1, 2], [3, 4]]


def test_what_became_final_while_nothing_waited_is_one_group_if_it_is_quick_whatever_the_policy() -> None:
    much, little = 0.7 * GROUP_S, 0.1 * GROUP_S
    alone = [windows(0, 0, little, item=0, expected=little), windows(1, 0, much, item=1, expected=much)]
    for name in LIVE:
        assert order(replay(Recording(alone), POLICIES[name])) == [[0, 1]]
    more = windows(2, 0, much, item=2, expected=much)  # too much: now the policy decides, and no one waits for the dear
    assert order(replay(Recording([*alone, more]), POLICIES["SRPT"])) == [[0], [1], [2]]


def test_what_becomes_final_while_quick_windows_wait_joins_those_of_its_item() -> None:
    little = 0.1 * GROUP_S
    busy = windows(0, 0, 1, item=0)
    quick = [windows(n, n, n + little, item=n, final=0.5) for n in (1, 2)]  # while the first group runs
    later = windows(3, 3, 3 + little, item=2, final=0.6, queries=(2,))
    assert order(replay(Recording([busy, *quick, later]), POLICIES["FCFS"])) == [[0], [1], [2]]


def test_an_item_of_many_queries_goes_before_one_that_takes_as_long_for_one() -> None:
    many, one = windows(1, 4, 8, item=1, queries=range(10, 20)), windows(0, 0, 4, item=0)
    for name in ("HNR", "HR", "BSD", "LSF"):
        assert order(replay(Recording([windows(2, 8, 9, item=2, final=-9), one, many]), POLICIES[name]))[-1] == [0]


# A step waits for the group that is being answered, and goes before the next one.
#
#     desk:  |0: 2 s|        |1: 1 s|
#     step:   ↑ 1.5  |- 3 s -|  makes item 2 final half a second before its end
STEPPED = Recording(
    [windows(0, 0, 2, item=0), windows(1, 5, 6, item=1, final=0), windows(2, 6, 7, item=2, final=4.5, due=5.5)],
    [step(1.5, 2, 5)],
)


def test_a_step_goes_before_the_next_group_and_what_it_makes_final_waits_since_then() -> None:
    assert done(replay(STEPPED, POLICIES["FCFS"]), STEPPED) == {0: 2.0, 1: 6.0, 2: 7.0}
    other = replay(STEPPED, POLICIES["SRPT"])  # item 1 first: the step begins half a second later, at 3 s
    assert done(other, STEPPED) == {1: 1.0, 0: 3.0, 2: 7.0}
    (late,) = [one for one in other.answered if STEPPED.windows[one.place].item == 2]
    assert (late.final_us, late.due_us) == (round(5.5 * SECOND), round(6.5 * SECOND))


def test_a_step_keeps_no_other_stream_waiting() -> None:
    recording = Recording(
        [windows(0, 3, 4, item=0, final=2), windows(1, 2.5, 3, item=1, final=2.5, stream="other")],
        [step(0, 0, 3)],
    )
    assert done(replay(recording, POLICIES["FCFS"]), recording) == {1: 3.0, 0: 4.0}


def test_where_answers_do_not_lag_a_step_answers_what_it_made_final_before_the_next_step() -> None:
    # |- step: 1 s -|0: 3 s|1: 1 s|- tidies up: 1 s -|   the next step is wanted at 6 s
    recording = Recording(
        [windows(0, 1, 4, item=0, final=1), windows(1, 4, 5, item=1, final=1), windows(2, 7, 8, item=2, final=7)],
        [step(0, 0, 6), step(6, 6, 9)],
    )
    assert done(replay(recording, POLICIES["FCFS"]), recording) == {0: 4.0, 1: 5.0, 2: 8.0}
    assert done(replay(recording, POLICIES["SRPT"]), recording) == {1: 2.0, 0: 5.0, 2: 8.0}


def test_what_late_rows_would_change_is_answered_before_their_step_goes_on() -> None:
    # item 1 waits behind item 0 until a step with late rows has it answered, 1 s of its 3 s
    recording = Recording(
        [windows(0, 0, 2, item=0), windows(1, 2.5, 3.5, item=1), windows(2, 5, 6, item=2)],
        [step(2, 2, 5)],
    )
    assert done(replay(recording, POLICIES["FCFS"]), recording) == {0: 2.0, 1: 3.0, 2: 6.0}
    assert order(replay(recording, POLICIES["FCFS"])) == [[0], [1], [2]]


def test_windows_of_one_item_that_wait_together_run_together_and_pay_once_what_is_fixed() -> None:
    # a run of item 1 takes 10 ms, and 10 ms for each window: seen with one window and with two
    alone = [windows(0, 0, 0.02, item=1), windows(1, 0.02, 0.05, item=1, final=0.01, number=2, ends=(10, 20))]
    later = [windows(2, 1, 1.2, item=0, final=1), windows(3, 1.2, 1.22, item=1, final=1.1, ends=(30, 30))]
    more = [windows(4, 1.22, 1.24, item=1, final=1.15, ends=(40, 40))]
    recording = Recording([*alone, *later, *more])
    costs = RecordedCosts.of(recording)
    assert costs.set_up == {(7, "s", 1): pytest.approx(10_000)}
    found = replay(recording, POLICIES["FCFS"], costs)
    assert order(found) == [[1], [1], [0], [1]]
    assert found.busy_us == pytest.approx(20_000 + 30_000 + 200_000 + 30_000)  # live it was 20,000 twice at the end
    assert done(found, recording)[1] == pytest.approx(1.23)
    assert found.unknown == 0


def test_what_runs_together_as_the_trace_never_shows_is_told() -> None:
    recording = Recording(
        [
            windows(0, 0, 0.5, item=0),
            windows(1, 0.5, 0.52, item=1, final=0.1, ends=(10, 10)),
            windows(2, 0.52, 0.54, item=1, final=0.2, ends=(20, 20)),
        ]
    )
    costs = RecordedCosts.of(recording)
    found = replay(recording, POLICIES["FCFS"], costs)
    assert costs.set_up == {}
    assert order(found) == [[0], [1]]
    assert found.unknown == 2
    assert replayed_figures(recording, costs, found).unknown == pytest.approx(2 / 3)
    assert found.busy_us == pytest.approx(540_000)


def test_an_item_that_takes_too_long_is_cut_by_the_ends_of_its_windows() -> None:
    recording = Recording([windows(0, 0, 4, item=0, number=40, ends=(0, 39)), windows(1, 4, 5, item=1, due=0.5)])
    found = replay(recording, POLICIES["FCFS"])
    assert order(found) == [[0]] * 40 + [[1]]  # a window at a time: each is expected to take 100 ms
    assert sum(one.windows for one in found.answered if one.place == 0) == 40
    assert done(found, recording) == {0: 4.0, 1: 5.0}
    assert order(replay(recording, POLICIES["EDF"]))[0] == [1]


def test_what_a_group_takes_beyond_its_windows_and_the_time_to_the_next_one_are_counted() -> None:
    # groups take half a second more than their windows, and the next begins 100 ms later
    recording = Recording([windows(0, 0, 1.5, item=0, spent=1.0), windows(1, 1.6, 4.1, item=1, spent=2.0)])
    costs = RecordedCosts.of(recording)
    assert costs.group_us == pytest.approx(SECOND / 2)
    assert costs.gap_us == pytest.approx(SECOND / 10)
    assert done(replay(recording, POLICIES["FCFS"], costs), recording) == {0: 1.5, 1: pytest.approx(4.1)}
    assert done(replay(recording, POLICIES["RR"], costs), recording) == {0: 1.5, 1: pytest.approx(4.1)}


def test_what_a_group_took_longer_than_others_is_its_windows() -> None:
    groups = [windows(n, n, n + 0.5, item=n, spent=0.4) for n in range(4)]
    recording = Recording([*groups, windows(4, 4, 6.1, item=4, spent=1.0), windows(4, 4, 6.1, item=5, spent=3.0)])
    costs = RecordedCosts.of(recording)
    assert costs.group_us == pytest.approx(100_000)
    assert costs.each[4:] == pytest.approx((500_000, 1_500_000))


def test_threads_that_take_less_together_than_each_alone_are_not_counted_twice() -> None:
    recording = Recording([windows(0, 0, 2, item=0, spent=2.0), windows(0, 0, 2, item=1, spent=2.0)])
    found = replay(recording, POLICIES["FCFS"])
    assert found.busy_us == 2 * SECOND


def test_a_line_never_falls_and_never_begins_below_nothing() -> None:
    assert fitted([1, 1], [3, 4]) is None
    assert fitted([], []) is None
    assert fitted([1, 2], [3, 1]) == CostLine(2.0, 0.0)
    assert fitted([1, 2], [0, 3]) == CostLine(0.0, 1.0)
    line = fitted([1, 3], [3, 7])
    assert line is not None
    assert [line.at(0), line.at(2)] == pytest.approx([1.0, 5.0])


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """Draw what a desk may have done: groups one after the other, of windows that were final before."""
    found: list[RecordedWindows] = []
    steps: list[RecordedStep] = []
    now = 0.0
    for group in range(draw(st.integers(1, 8))):
        if draw(st.booleans()):
            wanted = now - draw(st.floats(0, 0.5))
            took = draw(st.floats(0.001, 2.0))
            steps.append(step(max(0.0, wanted), now, now + took))
            now += took
        items = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True))
        took = draw(st.floats(0.001, 3.0))
        for item in items:
            number = draw(st.integers(1, 5))
            about = {"number": number, "ends": (10 * group, 10 * group + 2 * (number - 1))}
            final, due = draw(st.floats(0, now)), draw(st.floats(0, 20))
            weight, queries = draw(st.integers(1, 3)), draw(st.integers(1, 3))
            spent = took * draw(st.floats(0.1, 1.0)) / len(items)
            found.append(
                windows(
                    group,
                    now,
                    now + took,
                    item=item,
                    final=final,
                    due=final + due,
                    priority=float(weight),
                    queries=range(item * 10, item * 10 + queries),
                    spent=spent,
                    **about,  # type: ignore[arg-type]
                )
            )
        now += took + draw(st.floats(0, 0.1))
    return Recording(found, steps)


@given(policy=st.sampled_from(LIVE), recording=recordings())
def test_every_window_is_answered_once_and_work_is_conserved(policy: str, recording: Recording) -> None:
    costs = RecordedCosts.of(recording)
    found = replay(recording, POLICIES[policy], costs)
    for place, one in enumerate(recording.windows):
        mine = [part for part in found.answered if part.place == place]
        assert sum(part.windows for part in mine) == one.windows
        assert all(part.done_us >= part.final_us for part in mine)
    fixed = sum(costs.set_up.get(item, 0.0) for group in found.groups for item in group)
    each = sum(costs.each[place] * one.windows for place, one in enumerate(recording.windows))
    assert found.busy_us == pytest.approx(fixed + each)
    figures, live = replayed_figures(recording, costs, found), live_figures(recording, costs)
    assert figures.answers == live.answers == sum(one.answers for one in recording.windows)
    assert 0 <= figures.unknown <= 1
