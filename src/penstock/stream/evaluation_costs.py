"""Learns what it costs to answer windows, from what answering them took so far.

Windows of one lane and shape are merged together, and so are those of all columns of a bundle: their costs are learnt
together too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.evaluate.windows.bundles import ColumnLane
from penstock.kernel.answering import Answering, Spent
from penstock.kernel.pending import Pending

TIMES: Final = 8  # that are looked at
FIRST_S: Final = 50e-6  # of a window that was never answered,
GROUP_S: Final = 1e-6  # and of each group in it
GROUPS: Final = 32  # of answers, by which it is known what one takes beyond its windows


@dataclass(slots=True)
class WindowCost:
    """Seconds of windows that run together: a fixed part however many they are, and so much for each.

    Both come from medians of the last runs, so that one that was disturbed puts nobody off for long.
    """

    each: float
    fixed: float = 0.0
    last: list[tuple[int, float]] = field(default_factory=list)  # windows and seconds of runs

    @property
    def known(self) -> bool:
        """Tell whether it was measured, and is not guessed."""
        return bool(self.last)

    @property
    def seconds(self) -> float:
        """Return what one window takes that runs by itself."""
        return self.fixed + self.each

    def of(self, windows: int) -> float:
        """Return what so many windows take that run together."""
        return self.fixed + self.each * windows

    def learn(self, windows: int, seconds: float) -> None:
        """Take a new measurement: runs of more windows than the smallest tell what each of them takes.

        The smallest ones are not believed to take longer than those: they were disturbed then.
        """
        self.last = [*self.last[1 - TIMES :], (windows, seconds)]
        fewest = min(number for number, _ in self.last)
        least = _median([took for number, took in self.last if number == fewest])
        self.each, self.fixed = least / fewest, 0.0
        if more := [(number, took) for number, took in self.last if number > fewest]:
            least = min(least, _median([took for _, took in more]))
            slope = _median([(took - least) / (number - fewest) for number, took in more])
            self.each = min(max(0.0, slope), least / fewest)
            self.fixed = max(0.0, least - self.each * fewest)


def _median(values: list[float]) -> float:
    """Return the upper one of the values in the middle."""
    return sorted(values)[len(values) // 2]


class GroupCost:
    """What a group of answers takes beyond its windows: they are logged and left for sinks."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._last: deque[float] = deque(maxlen=GROUPS)
        self.seconds = 0.0  # the low quartile of the last ones: the others were disturbed

    def note(self, seconds: float) -> None:
        """Learn from a group."""
        self._last.append(max(0.0, seconds))
        self.seconds = sorted(self._last)[len(self._last) // 4]


class EvaluationCosts:
    """What a window costs, for each lane and shape."""

    def __init__(self, answering: Answering) -> None:
        """Know nothing yet."""
        self.answering = answering
        self._of: dict[int, WindowCost] = {}  # by definition
        self._together: dict[object, WindowCost] = {}  # by lane, or bundle, and shape

    def of(self, one: Pending) -> WindowCost:
        """Return what a window of a query costs, or is guessed to."""
        return self._of.get(one.definition.id) or self._begin(one)

    def expected(self, due: Sequence[Pending]) -> dict[int, float]:
        """Return what a window of each definition is expected to take where all of some windows run together."""
        costs = [self.of(one) for one in due]
        if not any(cost.fixed for cost in costs):
            return {one.definition.id: cost.each for one, cost in zip(due, costs, strict=True)}
        windows: dict[int, int] = {}  # that share a cost
        for one, cost in zip(due, costs, strict=True):
            windows[id(cost)] = windows.get(id(cost), 0) + len(one.ends)
        shared = zip(due, costs, strict=True)
        return {one.definition.id: cost.of(windows[id(cost)]) / windows[id(cost)] for one, cost in shared}

    def measured(self, number: int) -> float | None:
        """Return how long a window of a definition takes by itself; None: none was answered yet."""
        known = self._of.get(number)
        return known.seconds if known is not None and known.known else None

    def note(self, spent: Sequence[Spent]) -> None:
        """Learn from what some windows took."""
        for one in spent:
            known = self._of.get(one.definition)
            if known is not None and one.windows:
                known.learn(one.windows, one.seconds)

    def forget(self, current: Collection[int]) -> None:
        """Forget the queries that are gone."""
        self._of = {number: cost for number, cost in self._of.items() if number in current}
        alive = {id(cost) for cost in self._of.values()}
        self._together = {key: cost for key, cost in self._together.items() if id(cost) in alive}

    def _begin(self, one: Pending) -> WindowCost:
        """Guess what a window costs of which nothing is known; others of its lane and shape may have been answered."""
        synopsis, lane = self.answering.synopsis, one.lane
        column = isinstance(synopsis.lanes.get(lane), ColumnLane)
        key = lane.tree, lane.keys, None if column else lane, self.answering.shape_of(one.definition)
        if key not in self._together:
            groups = synopsis.most_groups(lane) if lane.keys else 1
            self._together[key] = WindowCost(FIRST_S + GROUP_S * groups)
        self._of[one.definition.id] = self._together[key]
        return self._together[key]
