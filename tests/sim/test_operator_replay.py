"""Steps of operators are replayed as they ran under their own policy, and in the order of another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.schedule.recorded_operators import OperatorRecording, RecordedOperatorStep, RecordedQueueAnswer
from penstock.schedule.registry import policy_named
from penstock.sim.operator_costs import OperatorCosts
from penstock.sim.operator_figures import mean_response_of_queues, operator_figures
from penstock.sim.operator_replay import ReplayedQueues, live_queues, replay_operators

S = 1_000_000
CHEAP, DEAR = 1, 2


def step(
    query: int, began: float, ended: float, commit: int = 0, since: float = 0, *, name: str = "", **told: int
) -> RecordedOperatorStep:
    """Take 10 rows through an operator, of which 5 are left; a kilobyte goes in, and stays."""
    return RecordedOperatorStep(
        run=1,
        stream="s",
        policy="FCFS",
        commit=commit,
        since_us=round(since * S),
        began_us=round(began * S),
        ended_us=round(ended * S),
        queries=(query,),
        wanted=(told.get("rows", 10),),
        dues_us=(round((since + 6) * S),),
        priorities=(1.0,),
        block=told.get("block", 0),
        operator=name or f"f{query}(v)",
        rows=told.get("rows", 10),
        left=told.get("left", 5),
        bytes=told.get("bytes", 1_000),
        bytes_left=told.get("bytes_left", 1_000),
        seconds=ended - began,
    )


def answer(query: int, ended: float, commit: int = 0, since: float = 0, taken: int = 5) -> RecordedQueueAnswer:
    times = round(since * S), round(ended * S)
    return RecordedQueueAnswer(1, "s", commit, *times, (query,), (taken,), (round((since + 6) * S),), (1.0,))


def first_come_first_served() -> OperatorRecording:
    """Three commits come, a second apart; a dear operator takes 4 s of each, a cheap one 1 s."""
    steps, answers, now = list[RecordedOperatorStep](), list[RecordedQueueAnswer](), 0.0
    for commit in range(3):
        for query, cost in ((DEAR, 4.0), (CHEAP, 1.0)):
            steps.append(step(query, now, now + cost, commit, commit))
            now += cost
            answers.append(answer(query, now, commit, commit))
    return OperatorRecording(steps, answers)


def replayed(recording: OperatorRecording, policy: str) -> ReplayedQueues:
    return replay_operators(recording, policy_named(policy), OperatorCosts.of(recording))


def test_under_its_own_policy_a_replay_is_what_ran() -> None:
    recording = first_come_first_served()
    again, live = replayed(recording, "FCFS"), live_queues(recording)
    assert sorted(again.answers, key=lambda one: one.done_us) == list(live.answers)
    assert (again.peak_bytes, again.busy_s) == (live.peak_bytes, live.busy_s) == (3_000, 15.0)
    figures = operator_figures(live, OperatorCosts.of(recording))
    assert (figures.answers, figures.response.mean) == (30, 8.5)
    assert figures.kept == pytest.approx(1 / 3)
    assert figures.slowdown.maximum == 13.0  # 13 s for a second of work


@pytest.mark.parametrize("policy", ["HNR", "SRPT"])
def test_another_policy_lets_the_cheap_operator_go_first(policy: str) -> None:
    recording = first_come_first_served()
    assert mean_response_of_queues(live_queues(recording)) == {CHEAP: 9.0, DEAR: 8.0}
    assert mean_response_of_queues(replayed(recording, policy)) == {CHEAP: 1.0, DEAR: 10.0}


def in_a_row() -> OperatorRecording:
    """Four blocks pass a cheap operator that frees nine tenths, then a dear one, block by block."""
    steps, answers = list[RecordedOperatorStep](), list[RecordedQueueAnswer]()
    for commit in range(4):
        began = 4.0 * commit
        steps.append(step(CHEAP, began, began + 1, commit, commit / 1e3, name="first(v)", left=1, bytes_left=100))
        row = {"rows": 1, "left": 1, "bytes": 100, "bytes_left": 100}
        steps.append(step(CHEAP, began + 1, began + 4, commit, commit / 1e3, name="last(v)", **row))
        answers.append(answer(CHEAP, began + 4, commit, commit / 1e3, taken=1))
    return OperatorRecording(steps, answers)


def test_chain_frees_what_is_freed_fastest_first() -> None:
    recording = in_a_row()
    every = {name: replayed(recording, name) for name in ("FIFO", "Chain")}
    assert sorted(every["FIFO"].answers, key=lambda one: one.done_us) == list(live_queues(recording).answers)
    done = {name: sorted(one.done_us / S for one in found.answers) for name, found in every.items()}
    assert done == {"FIFO": [4, 8, 12, 16], "Chain": [7, 10, 13, 16]}
    assert every["FIFO"].peak_bytes == every["Chain"].peak_bytes == 4_000  # nearly all came at once


def test_chain_holds_less_while_more_comes() -> None:
    steps = [replace(one, since_us=one.commit * S) for one in in_a_row().steps]
    answers = [replace(one, since_us=one.commit * S) for one in in_a_row().answers]
    recording = OperatorRecording(steps, answers)
    assert replayed(recording, "FIFO").peak_bytes == live_queues(recording).peak_bytes == 3_100
    assert replayed(recording, "Chain").peak_bytes == 1_300


def test_chain_flush_lets_go_what_would_be_late_otherwise() -> None:
    def at_once(due_s: float) -> list[float]:
        """Replay with a deadline for the first block, and a minute for the others."""
        every = [replace(one, dues_us=(round((60.0 if one.commit else due_s) * S),)) for one in in_a_row().steps]
        found = replayed(OperatorRecording(every, in_a_row().answers), "Chain-Flush")
        return [one.done_us / S for one in found.answers]

    assert at_once(60) == [7, 10, 13, 16]  # as Chain
    assert at_once(4.5) == [4, 10, 13, 16]
    assert at_once(5.5) == [5, 10, 13, 16]  # the second block's first operator can go before


def test_an_answer_waits_for_the_batch_that_is_under_way_and_for_the_commits_before_it() -> None:
    holds = [(1, "s", round(3.5 * S), 5 * S), (1, "other", 0, 20 * S)]
    recording = replace(first_come_first_served(), holds=holds)
    done = {(one.commit[2], one.query): one.done_us / S for one in replayed(recording, "FCFS").answers}
    assert (done[0, DEAR], done[0, CHEAP], done[1, DEAR]) == (5, 5, 9)
    late = [step(CHEAP, 0, 4, 0), step(CHEAP, 4, 5, 1, name="g(v)")]
    out_of_turn = OperatorRecording(late, [answer(CHEAP, 4, 0), answer(CHEAP, 5, 1)])
    assert [one.commit[2] for one in replayed(out_of_turn, "SRPT").answers] == [0, 1]
    assert [one.done_us / S for one in replayed(out_of_turn, "SRPT").answers] == [5, 5]


def test_workers_that_ran_at_once_do_so_again_and_pause_as_they_did() -> None:
    both = [step(CHEAP, 0, 2, 0), step(DEAR, 0, 3, 0), step(CHEAP, 2.5, 4.5, 1, 1), step(DEAR, 3.5, 6.5, 1, 1)]
    answers = [answer(q, e, c, c) for q, e, c in ((CHEAP, 2, 0), (DEAR, 3, 0), (CHEAP, 4.5, 1), (DEAR, 6.5, 1))]
    recording = OperatorRecording(both, answers)
    costs = OperatorCosts.of(recording)
    assert (costs.slots, costs.pauses_us) == (2, [0.5 * S] * 4)
    assert sorted(one.done_us / S for one in replayed(recording, "FCFS").answers) == [2, 3, 4.5, 6.5]


def test_a_step_that_several_queries_waited_for_runs_once_for_all() -> None:
    shared = replace(
        step(CHEAP, 0, 1), queries=(CHEAP, DEAR), wanted=(10, 4), dues_us=(6 * S,) * 2, priorities=(1.0, 2.0)
    )
    recording = OperatorRecording([shared, step(DEAR, 1, 3)], [answer(CHEAP, 1), answer(DEAR, 3)])
    found = replayed(recording, "HNR")
    assert [(one.query, one.done_us / S) for one in found.answers] == [(CHEAP, 1), (DEAR, 3)]
    costs = OperatorCosts.of(recording)
    assert [stage.operator for stage in costs.paths[DEAR].stages] == ["s: f1(v)", "s: f2(v)"]
    assert costs.ideal[(1, "s", 0), DEAR] == pytest.approx(0.4 + 2.0)  # 4 rows of the shared one, and its own


def test_nothing_is_replayed_of_nothing() -> None:
    nothing = OperatorRecording()
    figures = operator_figures(replayed(nothing, "Chain"), OperatorCosts.of(nothing))
    assert (figures.answers, figures.response.mean, figures.kept, figures.peak_bytes) == (0, None, None, 0)
