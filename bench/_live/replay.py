"""Records queries that fall due together under several policies, and compares each trace replayed with what ran.

Under the policy that ran, mean and 95th percentile of the response are compared; under another one, whether it is said
rightly who is better, where the replay predicts a difference worth speaking of.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench._live.midnight import Midnight, appear, files_so_far, written
from penstock.engine import Engine
from penstock.model.instants import wall_clock_us
from penstock.schedule.live_policy import live_policy_named
from penstock.schedule.recorded import Recording
from penstock.sim.recorded_costs import RecordedCosts
from penstock.sim.replay import replay
from penstock.sim.replay_figures import live_figures, replayed_figures

REPLAYED: Final = ("FCFS", "HNR", "Hybrid")
WORTH: Final = 0.15  # of the mean response: a difference that is predicted and must then be there


def recorded(engine: Engine, load: Midnight, folder: Path, policy: str) -> Recording:
    """Answer some batches in the order of a policy; return their trace. One run follows the other in one engine."""
    engine.set_policy(policy)
    since_us, next_file, batches = wall_clock_us(), files_so_far(folder), load.batches - load.first
    for number in range(batches):
        appear(folder, load, next_file + number)
        engine.process_available()
    return written(folder, since_us, load.queries * batches)


FIGURES: Final = ("live mean", "replayed mean", "live p95", "replayed p95", "other mean")
Row = dict[str, Any]


def compared(recordings: Mapping[str, Recording]) -> list[Row]:
    """Replay every trace under every policy that ran, beside what ran, also under that policy; times in seconds."""
    costs = {name: RecordedCosts.of(one) for name, one in recordings.items()}
    live = {name: live_figures(one, costs[name]).response for name, one in recordings.items()}
    rows: list[Row] = []
    for ran, recording in recordings.items():
        for other in recordings:
            replayed = replay(recording, live_policy_named(other), costs[ran])
            found = replayed_figures(recording, costs[ran], replayed).response
            times = live[ran].mean, found.mean, live[ran].p95, found.p95, live[other].mean
            rows.append({"ran": ran, "replayed": other, **dict(zip(FIGURES, times, strict=True))})
    return rows


def medians(rounds: Sequence[Sequence[Row]]) -> list[Row]:
    """Take the medians of rounds, and tell which change of the mean response was predicted and which came."""
    rows: list[Row] = []
    for some in zip(*rounds, strict=True):
        row = {name: some[0][name] for name in ("ran", "replayed")}
        row |= {name: _median([one[name] for one in some]) for name in FIGURES}
        predicted, came = (_change(row["live mean"], row[name]) for name in ("replayed mean", "other mean"))
        rows.append(row | {"predicted": predicted, "came": came, "right": _is_right(row, predicted, came)})
    return rows


def apart(rows: Sequence[Row], what: str) -> float | None:
    """Return how far replays under the policy that ran are from what ran, at most, as a share of it, if it is known."""
    own = [row for row in rows if row["ran"] == row["replayed"]]
    changes = [_change(row[f"live {what}"], row[f"replayed {what}"]) for row in own]
    return max((abs(change) for change in changes if change is not None), default=None)


def _is_right(row: Row, predicted: float | None, came: float | None) -> bool | None:
    """Tell whether a change has the sign that was predicted; None: none worth speaking of was."""
    if row["ran"] == row["replayed"] or predicted is None or came is None or abs(predicted) <= WORTH:
        return None
    return (predicted > 0) == (came > 0)


def _median(values: Sequence[float | None]) -> float | None:
    """Return the median of what is known."""
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 4) if known else None


def _change(before: float | None, after: float | None) -> float | None:
    """Return by what share something changes."""
    return None if before is None or after is None or before <= 0 else round(after / before - 1, 4)
