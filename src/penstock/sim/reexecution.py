"""Simulates groups of periodic queries, and measures throughput and latency (Golab et al. 2006, §5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from penstock.schedule.compiled import compiled
from penstock.schedule.periods import SubGroup, aggressive, hybrid, sub_groups
from penstock.schedule.running_together import Sharing
from penstock.schedule.synchronize import run_together

Array = np.ndarray[Any, Any]
Parts = tuple[SubGroup, ...]


@dataclass(frozen=True, slots=True)
class ReexecutionTechnique:
    """A way to schedule: which periods, and what runs together."""

    name: str
    words: str
    periods: Callable[[Sequence[SubGroup]], Parts]
    sharing: Sharing


TECHNIQUES: Final = (
    ReexecutionTechnique("No-S", "no sharing", tuple, Sharing.NONE),
    ReexecutionTechnique("AS", "aggressive", aggressive, Sharing.NONE),
    ReexecutionTechnique("CS", "conservative", tuple, Sharing.SAME),
    ReexecutionTechnique("HS", "hybrid", hybrid, Sharing.SAME),
    ReexecutionTechnique("H-LS", "hybrid, late sharing", hybrid, Sharing.LATE),
    ReexecutionTechnique("H-LP", "hybrid, late-pending sharing", hybrid, Sharing.LATE_PENDING),
)


@dataclass(frozen=True, slots=True)
class ReexecutionWork:
    """What re-executions of one group take: time for each interval scanned and each query answered, in ticks."""

    scan: float
    answer: float


@dataclass(frozen=True, slots=True)
class Refreshed:
    """How often queries were answered a tick, and how many synopsis updates they were late on average.

    Late for the slide that each query asks for (§5.1), or for the period with which the scheduler runs it.
    """

    throughput: float
    latency: float
    behind_schedule: float
    tasks: int


@cache
def _periods(technique: ReexecutionTechnique, parts: Parts) -> Parts:
    """Choose periods; the search for the best takes long enough to keep what it found."""
    return technique.periods(parts)


def refresh(
    groups: Sequence[Sequence[tuple[int, int]]],
    technique: ReexecutionTechnique,
    work: Sequence[ReexecutionWork],
    ticks: int,
) -> Refreshed:
    """Re-execute groups of queries (window, slide), each with its work, for some time."""
    scheduled = [_periods(technique, sub_groups(group)) for group in groups]
    flat = [(number, part) for number, parts in enumerate(scheduled) for part in parts]
    members = [member for _, part in flat for member in part.members]
    period = np.array([part.period for _, part in flat], dtype=np.int64)
    answered, late, behind = loop(
        period,
        np.array([number for number, _ in flat], dtype=np.int64),
        np.array([part.window for _, part in flat], dtype=np.float64),
        np.array([part.queries for _, part in flat], dtype=np.float64),
        int(technique.sharing),
        np.array([work[number].scan for number, _ in flat]),
        np.array([work[number].answer for number, _ in flat]),
        ticks,
        np.cumsum([0, *(len(part.members) for _, part in flat)]),
        np.array([slide for slide, _ in members], dtype=np.int64),
        np.array([many for _, many in members], dtype=np.float64),
    )
    many = max(answered, 1.0)
    return Refreshed(answered / ticks, late / many, behind / many, len(flat))


@compiled
def loop(
    period: Array,
    group: Array,
    window: Array,
    queries: Array,
    sharing: int,
    scan: Array,
    answer: Array,
    ticks: int,
    first: Array,
    slides: Array,
    many: Array,
) -> tuple[float, float, float]:
    """Run whatever is due soonest, all the time; return the answers and both kinds of their lateness in updates."""
    tasks = period.shape[0]
    until_due, chosen = period.copy(), np.zeros(tasks, dtype=np.bool_)
    last, priority = np.zeros(tasks, dtype=np.int64), np.zeros(tasks)
    now, tick, answered, late, behind = 0.0, 0, 0.0, 0.0, 0.0
    while now < ticks:
        run_together(until_due, group, priority, sharing, chosen)
        longest = 0.0
        for task in range(tasks):
            if chosen[task]:
                longest = max(longest, scan[task] * window[task])
                now += answer[task] * queries[task]
        now += longest
        for task in range(tasks):
            if chosen[task]:
                answered += queries[task]
                behind += queries[task] * max(0, tick - last[task] - period[task])
                for place in range(first[task], first[task + 1]):
                    late += many[place] * max(0, tick - last[task] - slides[place])
                last[task] = tick
                until_due[task] = period[task]
        while tick + 1 <= now:
            tick += 1
            until_due -= 1
    return answered, late, behind
