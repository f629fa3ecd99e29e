"""Works out from a trace what answering windows costs: each window, each run of an item, each group.

A group takes longer than its windows do: answers are logged and left for sinks. What groups take at least beyond their
windows is the cost of a group; all else that a group took is its windows', in proportion to what was measured for each.
An item's run may cost something however many windows it has: that is fitted as seconds = fixed + each · windows. Where
the trace never shows an item with two numbers of windows, its fixed part is unknown, and taken for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from penstock.schedule.recorded import RecordedWindows, Recording

ItemOf = tuple[int, str, int]  # run, stream and number of an item
LEAST_US: Final = 1.0


@dataclass(frozen=True, slots=True)
class CostLine:
    """What something costs: a fixed part, and so much for each of an amount."""

    fixed: float
    each: float

    def at(self, amount: float) -> float:
        """Return what an amount costs."""
        return self.fixed + self.each * amount


def fitted(amounts: Sequence[float], costs: Sequence[float]) -> CostLine | None:
    """Fit a line that nowhere falls and begins at nothing or above; None: all amounts are the same."""
    x, y = np.array(amounts, np.float64), np.array(costs, np.float64)
    if len(x) == 0 or float(x.max() - x.min()) <= 1e-9 * float(x.max()):
        return None
    each = float(((x - x.mean()) * (y - y.mean())).sum() / np.square(x - x.mean()).sum())
    fixed = float(y.mean() - each * x.mean())
    if each < 0:
        return CostLine(float(y.mean()), 0.0)
    return CostLine(fixed, each) if fixed >= 0 else CostLine(0.0, float(y.sum() / x.sum()))


@dataclass(frozen=True, slots=True)
class RecordedCosts:
    """What a trace tells of costs, in microseconds."""

    group_us: float  # of a group beyond its windows: the low quartile
    gap_us: float  # from the end of a group to the beginning of the next while something waits
    set_up: dict[ItemOf, float]  # the fixed part of an item's run; missing where it is unknown
    each: tuple[float, ...]  # of one window of each of its queries beyond the fixed part, by place in the recording
    ideal: dict[ItemOf, float]  # of a run by itself: the low quartile of its runs, and what a group takes at least

    @staticmethod
    def of(recording: Recording) -> RecordedCosts:
        """Work out the costs of a recording."""
        windows, groups = recording.windows, by_group(recording.windows)
        rest = [_length(windows[places[0]]) - 1e6 * sum(windows[p].spent_s for p in places) for places in groups]
        group_us = max(0.0, float(np.quantile(rest, 0.25))) if rest else 0.0
        own = _own_us(windows, groups, group_us)
        runs = [_runs(windows, places, own) for places in groups]
        by_item: dict[ItemOf, list[tuple[float, float]]] = {}
        for item, seen in (found for run in runs for found in run.items()):
            by_item.setdefault(item, []).append(seen)
        set_up = {item: known.fixed for item, some in by_item.items() if (known := fitted(*zip(*some, strict=True)))}
        each = [0.0] * len(own)
        for places, run in zip(groups, runs, strict=True):
            for place in places:
                one, item = windows[place], item_of(windows[place])
                fixed = set_up.get(item, 0.0) * one.answers / run[item][0]
                each[place] = max(0.0, own[place] - fixed) / one.windows
        ideal = {
            item: max(LEAST_US, group_us + float(np.quantile([cost for _, cost in some], 0.25)))
            for item, some in by_item.items()
        }
        return RecordedCosts(group_us, _gap_us(recording, groups), set_up, tuple(each), ideal)


def item_of(one: RecordedWindows) -> ItemOf:
    """Name the item that windows belong to."""
    return one.run, one.stream, one.item


def _length(one: RecordedWindows) -> int:
    """Return how long the group of some windows took."""
    return max(0, one.ended_us - one.began_us)


def by_group(windows: Sequence[RecordedWindows]) -> list[list[int]]:
    """List the places of the windows of each group, in the order in which groups began."""
    found: dict[tuple[int, int], list[int]] = {}
    for place, one in enumerate(windows):
        found.setdefault((one.run, one.group), []).append(place)
    return list(found.values())


def _own_us(windows: Sequence[RecordedWindows], groups: Sequence[Sequence[int]], group_us: float) -> list[float]:
    """Divide what each group took beyond ``group_us`` among its windows, as it was measured."""
    own = [0.0] * len(windows)
    for places in groups:
        left = max(0.0, _length(windows[places[0]]) - group_us)
        spent, answers = sum(windows[p].spent_s for p in places), sum(windows[p].answers for p in places)
        for place in places:
            one = windows[place]
            own[place] = left * (one.spent_s / spent if spent > 0 else one.answers / answers)
    return own


def _runs(
    windows: Sequence[RecordedWindows], places: Sequence[int], own: Sequence[float]
) -> dict[ItemOf, tuple[float, float]]:
    """Return the answers and the cost of every item in a group."""
    found: dict[ItemOf, tuple[float, float]] = {}
    for place in places:
        answers, cost = found.get(item_of(windows[place]), (0.0, 0.0))
        found[item_of(windows[place])] = answers + windows[place].answers, cost + own[place]
    return found


def _gap_us(recording: Recording, groups: Sequence[Sequence[int]]) -> float:
    """Return the mean time between two groups of which the second one waited for the first alone."""
    edges = np.sort(np.array([(one.began_us, one.ended_us) for one in recording.steps], np.int64).ravel())
    gaps: list[int] = []
    for before, after in pairwise(groups):
        one, two = recording.windows[before[0]], recording.windows[after[0]]
        waited = any(recording.windows[place].final_us <= one.ended_us for place in after)
        alone = edges.searchsorted(one.ended_us, "left") == edges.searchsorted(two.began_us, "right")
        if waited and alone and one.run == two.run:
            gaps.append(max(0, two.began_us - one.ended_us))
    return float(np.mean(gaps)) if gaps else 0.0
