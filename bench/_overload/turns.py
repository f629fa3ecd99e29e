"""Lets policies take turns over the same arrivals in one engine, at a pace that its worker can just keep up with.

What a tick takes is measured first, with the steps, the pauses between them, and the commits of their answers, at a
slow pace; ticks then come as fast as the load asks for. Every policy gets the same number of rows at the same times,
and all are judged by one ideal time, that of all their runs together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from bench._overload.packets import PacketFeed
from penstock.schedule.operator_queues import operator_policy_named
from penstock.schedule.recorded_operators import OperatorRecording
from penstock.sim.operator_costs import OperatorCosts
from penstock.sim.operator_figures import operator_figures
from penstock.sim.operator_replay import live_queues, replay_operators
from penstock.sim.replay_figures import Spread

MEASURED_TICKS: Final = 8  # before the turns; the first ones are left out, as Java compiles and costs are learnt
WARM_TICKS: Final = 3
SLOW: Final = 2.0  # seconds a tick while that is measured, at least


@dataclass(frozen=True, slots=True)
class Turn:
    """One policy's turn."""

    policy: str
    recording: OperatorRecording
    foreign: float  # share of the machine's time that others used


def tick_s(feed: PacketFeed, rows: Sequence[int], load: float, slow_s: float = SLOW) -> float:
    """Measure what a mean tick takes by itself, and return how long ticks last at a load."""
    mean = max(1, round(sum(rows) / len(rows)))
    feed.run([mean] * WARM_TICKS, slow_s)
    recording = feed.run([mean] * (MEASURED_TICKS - WARM_TICKS), slow_s)
    costs = OperatorCosts.of(recording)
    steps = sum((one.ended_us - one.began_us) / 1e6 + costs.pause_s for one in recording.steps)
    return steps / (MEASURED_TICKS - WARM_TICKS) / load


def costs_of(turns: Sequence[Turn]) -> OperatorCosts:
    """Work out the costs of all turns together: commits have numbers of their own."""
    steps = tuple(chain.from_iterable(one.recording.steps for one in turns))
    answers = tuple(chain.from_iterable(one.recording.answers for one in turns))
    holds = tuple(dict.fromkeys(chain.from_iterable(one.recording.holds for one in turns)))
    return OperatorCosts.of(OperatorRecording(steps, answers, holds))


def told(turn: Turn, costs: OperatorCosts, pace_s: float, ticks: int) -> dict[str, Any]:
    """Sum a turn up."""
    found = operator_figures(live_queues(turn.recording), costs)
    return {
        "rows answered": found.answers,
        "mean response": _rounded(found.response.mean),
        "maximum response": _rounded(found.response.maximum),
        "mean slowdown": _rounded(found.slowdown.mean),
        "maximum slowdown": _rounded(found.slowdown.maximum),
        "l2 slowdown": _rounded(found.slowdown_l2),
        "kept": _rounded(found.kept),
        "peak bytes": found.peak_bytes,
        "steps": len(turn.recording.steps),
        "busy": round(found.busy_s / (pace_s * ticks), 3),  # without what lies between steps
        "foreign": turn.foreign,
    }


def _rounded(value: float | None) -> float:
    """Round a figure; what there are no answers of is no number."""
    return float("nan") if value is None else round(value, 4)


# -- live against replay ---------------------------------------------------------------------------------------------


def replays(turns: Mapping[str, OperatorRecording]) -> list[dict[str, Any]]:
    """Replay every policy's recording under all of them, beside what ran, also under that policy; times in seconds."""
    costs = {name: OperatorCosts.of(one) for name, one in turns.items()}
    live = {name: operator_figures(live_queues(one), costs[name]).response for name, one in turns.items()}
    rows: list[dict[str, Any]] = []
    for ran, recording in turns.items():
        for other in turns:
            replayed = replay_operators(recording, operator_policy_named(other), costs[ran])
            found = operator_figures(replayed, costs[ran]).response
            rows.append({"ran": ran, "replayed": other, **_beside(live[ran], found, live[other])})
    return rows


def _beside(live: Spread, replayed: Spread, other: Spread) -> dict[str, float | None]:
    """Put mean and 95th percentile of what ran and of its replay beside one another, as the live benchmark does."""
    means = {"live mean": live.mean, "replayed mean": replayed.mean}
    return {**means, "live p95": live.p95, "replayed p95": replayed.p95, "other mean": other.mean}
