"""Sums up what became of queued rows, live and in replays: response, slowdown, tardiness, and bytes that waited.

A row's response is the time from when it was queued to when its answer was left for the sinks, its slowdown the
response over what the query's rows of that commit take by themselves (Sharaf 2007, §3.1), its tardiness what passes its
deadline (§3.5). Rows that no query answers are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.sim.operator_costs import LEAST_S, OperatorCosts
from penstock.sim.operator_replay import ReplayedQueues
from penstock.sim.replay_figures import Spread


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """What became of queued rows; times are in seconds."""

    name: str
    answers: int  # rows, of all queries
    response: Spread
    slowdown: Spread
    slowdown_l2: float | None
    tardiness: Spread
    kept: float | None  # share of the deadlines
    peak_bytes: int
    busy_s: float

    def as_dict(self) -> dict[str, Any]:
        """Give programs all of it."""
        measures = {name: getattr(self, name) for name in ("response", "slowdown", "tardiness")}
        spreads = {name: {part: getattr(one, part) for part in Spread.__slots__} for name, one in measures.items()}
        more = {"slowdown_l2": self.slowdown_l2, "kept": self.kept, "peak_bytes": self.peak_bytes}
        return {"policy": self.name, "answers": self.answers, **spreads, **more, "busy_seconds": self.busy_s}


def operator_figures(replayed: ReplayedQueues, costs: OperatorCosts) -> OperatorFigures:
    """Sum up a replay, or what ran."""
    some = [one for one in replayed.answers if one.rows]
    counts = np.array([one.rows for one in some], np.int64)
    response = np.array([max(0, one.done_us - one.since_us) for one in some], np.float64) / 1e6
    late = np.array([max(0, one.done_us - one.due_us) for one in some], np.float64) / 1e6
    ideal = np.array([max(LEAST_S, costs.ideal.get((one.commit, one.query), 0.0)) for one in some], np.float64)
    slowdown, total = np.maximum(1.0, response / ideal), int(counts.sum())
    return OperatorFigures(
        replayed.policy,
        total,
        Spread.of(response, counts),
        Spread.of(slowdown, counts),
        float(np.sqrt(np.square(slowdown) @ counts)) if total else None,
        Spread.of(late, counts),
        float(counts[late == 0].sum() / total) if total else None,
        replayed.peak_bytes,
        replayed.busy_s,
    )


def mean_response_of_queues(replayed: ReplayedQueues) -> dict[int, float]:
    """Return the mean response of each query's rows, by definition, in seconds."""
    sums: dict[int, tuple[int, float]] = {}
    for one in replayed.answers:
        if one.rows:
            count, total = sums.get(one.query, (0, 0.0))
            sums[one.query] = count + one.rows, total + one.rows * (one.done_us - one.since_us) / 1e6
    return {query: total / count for query, (count, total) in sums.items()}
