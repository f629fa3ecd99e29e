"""The benchmark's midnight in a replay with costs that are known: the engine's own choosing, without its clock's noise.

A window takes a part once a run and a part for each, both in proportion to its groups, as traces of the benchmark tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from bench._live.midnight import Midnight, groups
from penstock.schedule.live_policy import live_policy_named
from penstock.schedule.recorded import RecordedStep, RecordedWindows, Recording
from penstock.sim.recorded_costs import RecordedCosts, item_of
from penstock.sim.replay import ReplayedWindows, replay

LOAD = Midnight()
ASKED = groups(LOAD)
FIXED_US = [120 + 0.4 * many for many in ASKED]
EACH_US = [80 + 0.33 * many for many in ASKED]
SLOW = 1.3  # times as long as by themselves do evaluations take under the second load
GROUP_US, GAP_US, STEP_US = 2_500.0, 500.0, 30_000


def midnights(times_us: list[int], midnight_us: float, slow: float = 1.0) -> Recording:
    """Make windows of all queries final at some times; their deadlines are those of the benchmark.

    Evaluations take ``slow`` times as long as they do by themselves.
    """
    mean, windows, steps = sum(ASKED) / len(ASKED), list[RecordedWindows](), list[RecordedStep]()
    for number, at in enumerate(times_us):
        steps.append(RecordedStep(1, "trades", at - STEP_US, at - STEP_US, at))
        for query, many in enumerate(ASKED):
            soon_us, alone_s = (
                midnight_us * (0.25 + LOAD.patience * many / mean),
                slow * (FIXED_US[query] + EACH_US[query]) / 1e6,
            )
            group, end, due = number * len(ASKED) + query, number * 1_000_000, at + round(soon_us)
            times = 1, end, end, at, due, 1.0, alone_s, alone_s
            windows.append(RecordedWindows(1, group, "trades", "FCFS", at + 1, at + 2, query, (query,), *times))
    return Recording(windows, steps)


def replayed(recording: Recording, policy: str, slow: float = 1.0) -> Sequence[ReplayedWindows]:
    """Answer all windows under a policy, at the costs that are known."""
    windows = recording.windows
    once = {item_of(one): slow * FIXED_US[one.queries[0]] for one in windows}
    costs = RecordedCosts(GROUP_US, GAP_US, once, tuple(slow * EACH_US[one.queries[0]] for one in windows), {})
    return replay(recording, live_policy_named(policy), costs).answered


def judge(recording: Recording, policy: str, slow: float) -> dict[str, float]:
    """Sum up the slowdowns of all windows, and how many were in time."""
    done = replayed(recording, policy, slow)
    asked = [recording.windows[one.place].queries[0] for one in done]
    ideal = np.array([GROUP_US + FIXED_US[query] + EACH_US[query] for query in asked])
    slowdowns = np.array([one.done_us - one.final_us for one in done]) / ideal
    kept = np.mean([one.done_us <= one.due_us for one in done])
    norms = slowdowns.mean(), slowdowns.max(), np.sqrt((slowdowns**2).sum()), kept
    return dict(zip(("mean", "maximum", "l2", "kept"), map(float, norms), strict=True))


@cache
def judged(slow: float = 1.0) -> Mapping[str, dict[str, float]]:
    """Let the benchmark's midnights come: some wait already, others follow at the pace of its load."""
    alone = replayed(midnights([STEP_US], 1e6), "FCFS")
    midnight_us = STEP_US + max(one.done_us - one.final_us for one in alone)
    waiting = [round(1.5 * STEP_US * (number + 1)) for number in range(LOAD.backlog)]
    later = [round(midnight_us / LOAD.load * (number + 1)) + STEP_US for number in range(LOAD.beats)]
    recording = midnights(waiting + later, midnight_us, slow)
    return {policy: judge(recording, policy, slow) for policy in ("FCFS", "HNR", "LSF", "BSD", "Hybrid")}


def test_each_policy_is_best_at_what_it_is_for() -> None:
    told = judged()
    assert told["LSF"]["maximum"] <= 0.75 * told["HNR"]["maximum"]
    assert told["HNR"]["mean"] < 0.7 * told["FCFS"]["mean"]
    assert told["BSD"]["l2"] < min(told[name]["l2"] for name in ("FCFS", "HNR", "LSF"))


def test_the_default_keeps_deadlines_at_a_load_where_first_come_first_served_does_not() -> None:
    told = judged()
    assert told["FCFS"]["kept"] < 0.6
    assert told["Hybrid"]["kept"] >= 0.98


def test_the_default_keeps_most_deadlines_where_not_all_can_be_kept() -> None:
    """Each item is judged by when its group ends: of those by themselves, 76 % were in time, and 81 % by rate."""
    told = judged(SLOW)
    assert told["FCFS"]["kept"] < 0.45
    assert told["Hybrid"]["kept"] > 0.85 > told["HNR"]["kept"]
    assert told["Hybrid"]["mean"] <= 1.02 * told["HNR"]["mean"]
