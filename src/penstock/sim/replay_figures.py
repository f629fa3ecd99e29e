"""Sums a trace and its replays up: response, slowdown, tardiness and deadlines kept, live and under each policy.

A window's response is the time from when it was final to when its answer was left for the sinks, its slowdown the
response over what its item takes by itself (Sharaf 2007, §3.1), its tardiness what passes its deadline (§3.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from penstock.schedule.recorded import Recording
from penstock.sim.recorded_costs import RecordedCosts, item_of
from penstock.sim.replay import Replayed

Array = np.ndarray[Any, Any]
FEWEST: Final = 20  # answers that a 95th percentile is told of


@dataclass(frozen=True, slots=True)
class Spread:
    """How a measure is spread over answers; None: there are too few to tell."""

    mean: float | None
    p50: float | None
    p95: float | None
    maximum: float | None

    @staticmethod
    def of(values: Array, counts: Array) -> Spread:
        """Sum values up, each of which is had by so many answers."""
        if not counts.sum():
            return Spread(None, None, None, None)
        order = np.argsort(values)
        reached = np.cumsum(counts[order])

        def at(share: float) -> float:
            return float(values[order][np.searchsorted(reached, share * reached[-1])])

        p95 = at(0.95) if reached[-1] >= FEWEST else None
        return Spread(float(values @ counts / reached[-1]), at(0.5), p95, float(values[order][-1]))


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """What became of the answers of a trace, live or in a replay; times are in seconds."""

    name: str
    answers: int
    response: Spread
    slowdown: Spread
    tardiness: Spread
    kept: float | None  # share of the deadlines
    unknown: float  # share of the answers whose cost the trace does not tell, as they ran together or apart

    def as_dict(self) -> dict[str, Any]:
        """Give programs all of it."""
        measures = {name: getattr(self, name) for name in ("response", "slowdown", "tardiness")}
        spreads = {name: {part: getattr(one, part) for part in Spread.__slots__} for name, one in measures.items()}
        return {"policy": self.name, "answers": self.answers, **spreads, "kept": self.kept, "unknown": self.unknown}


def live_figures(recording: Recording, costs: RecordedCosts) -> AnswerFigures:
    """Sum up what a trace tells of the live engine."""
    names = ", ".join(dict.fromkeys(one.policy for one in recording.windows))
    each = [(place, one.windows, one.final_us, one.due_us, one.ended_us) for place, one in enumerate(recording.windows)]
    return _figures(f"live: {names}", recording, costs, each, 0)


def replayed_figures(recording: Recording, costs: RecordedCosts, replayed: Replayed) -> AnswerFigures:
    """Sum a replay up."""
    each = [(one.place, one.windows, one.final_us, one.due_us, one.done_us) for one in replayed.answered]
    return _figures(replayed.policy, recording, costs, each, replayed.unknown)


def mean_response_by_query(recording: Recording, replayed: Replayed | None = None) -> dict[int, float]:
    """Return the mean response of each query, by definition, in seconds: live, or in a replay."""
    if replayed is None:
        each = [(place, one.windows, one.ended_us - one.final_us) for place, one in enumerate(recording.windows)]
    else:
        each = [(one.place, one.windows, one.done_us - one.final_us) for one in replayed.answered]
    sums: dict[int, tuple[int, float]] = {}
    for place, windows, response_us in each:
        for query in recording.windows[place].queries:
            count, total = sums.get(query, (0, 0.0))
            sums[query] = count + windows, total + windows * response_us / 1e6
    return {query: total / count for query, (count, total) in sums.items()}


def _figures(
    name: str, recording: Recording, costs: RecordedCosts, each: Iterable[Sequence[int]], unknown: int
) -> AnswerFigures:
    """Sum answers up: place, windows of each query, when they became final, were wanted and were there."""
    place, windows, final, due, done = np.array([tuple(one) for one in each], np.int64).reshape(-1, 5).T
    counts = windows * np.array([len(recording.windows[p].queries) for p in place.tolist()], np.int64)
    ideal = np.array([costs.ideal[item_of(recording.windows[p])] for p in place.tolist()], np.float64)
    response, late = np.maximum(0, done - final), np.maximum(0, done - due)
    total = int(counts.sum())
    return AnswerFigures(
        name,
        total,
        Spread.of(response / 1e6, counts),
        Spread.of(np.maximum(1.0, response / ideal), counts),
        Spread.of(late / 1e6, counts),
        float(counts[late == 0].sum() / total) if total else None,
        unknown / total if total else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a replay under the policy that ran is from what ran, as shares of it."""

    mean: float | None
    p95: float | None

    @staticmethod
    def of(live: Spread, replayed: Spread) -> Agreement:
        """Compare mean and 95th percentile; None: one of both is not known."""
        return Agreement(_apart(live.mean, replayed.mean), _apart(live.p95, replayed.p95))


def _apart(live: float | None, replayed: float | None) -> float | None:
    """Return how far two numbers are apart, as a share of the first."""
    if live is None or replayed is None or live <= 0:
        return None
    return replayed / live - 1
