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
    """Seconds of one window: the median of the last times, so that one that was disturbed puts nobody off for long."""

    seconds: float
    last: list[float] = field(default_factory=list)

    @property
    def known(self) -> bool:
        """Tell whether it was measured, and is not guessed."""
        return bool(self.last)

    def learn(self, seconds: float) -> None:
        """Take a new measurement."""
        self.last = [*self.last[1 - TIMES :], seconds]
        self.seconds = sorted(self.last)[len(self.last) // 2]


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

    def measured(self, number: int) -> float | None:
        """Return how long a window of a definition takes; None: none was answered yet."""
        known = self._of.get(number)
        return known.seconds if known is not None and known.known else None

    def note(self, spent: Sequence[Spent]) -> None:
        """Learn from what some windows took."""
        for one in spent:
            known = self._of.get(one.definition)
            if known is not None and one.windows:
                known.learn(one.seconds / one.windows)

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
