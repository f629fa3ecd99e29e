"""Chooses which periodic queries of a group are run together, so that they share scans.

Golab, Bijay and Özsu 2006, §4: queries of a group read one synopsis; those with the same slide form a sub-group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from penstock.schedule.compiled import compiled

Array = np.ndarray[Any, Any]
FEW: Final = 8  # sub-groups of which all partitions are looked at; of more, the best states of a search
STATES: Final = 24
LONGEST: Final = 5_040  # ticks over which costs are compared; longer common periods are cut there


@dataclass(frozen=True, slots=True, order=True)
class SubGroup:
    """Queries of one group that are due together: their period and the intervals that their scan reads."""

    period: int
    window: int
    members: tuple[tuple[int, int], ...] = ()  # slides asked for, and by how many queries

    @property
    def queries(self) -> int:
        """Count the queries."""
        return sum(many for _, many in self.members)

    @property
    def cost(self) -> int:
        """Count the comparisons of one scan (§4.3)."""
        return self.window - 1


def sub_groups(queries: Iterable[tuple[int, int]]) -> tuple[SubGroup, ...]:
    """Put queries (window, slide) of a group with the same slide together."""
    windows: dict[int, list[int]] = {}
    for window, slide in queries:
        windows.setdefault(slide, []).append(window)
    return tuple(SubGroup(slide, max(found), ((slide, len(found)),)) for slide, found in sorted(windows.items()))


def aggressive(parts: Sequence[SubGroup]) -> tuple[SubGroup, ...]:
    """Run the whole group whenever one of it is due."""
    return (_joined(parts),)


def hybrid(parts: Sequence[SubGroup]) -> tuple[SubGroup, ...]:
    """Choose which sub-groups to join, so that scans cost least a tick (§4.3)."""
    if len(parts) <= FEW:
        return min(partitions(parts), key=lambda found: (cost_rate(found), len(found)))
    return searched(parts)


def partitions(parts: Sequence[SubGroup]) -> Iterator[tuple[SubGroup, ...]]:
    """List every way to join sub-groups; joined ones take the shortest period among them."""
    if not parts:
        yield ()
        return
    first, rest = parts[0], parts[1:]
    for found in partitions(rest):
        yield (first, *found)
        for place, other in enumerate(found):
            yield (*found[:place], _joined((first, other)), *found[place + 1 :])


def cost_rate(parts: Sequence[SubGroup]) -> float:
    """Return the cost a tick: those due at one time share the longest scan."""
    length = min(math.lcm(*(p.period for p in parts)), LONGEST)
    costs = np.zeros(length)
    for part in sorted(parts, key=lambda p: p.cost):
        costs[part.period - 1 :: part.period] = part.cost
    return float(costs.sum() / length)


def searched(parts: Sequence[SubGroup]) -> tuple[SubGroup, ...]:
    """Add sub-groups from the shortest period on, keeping the best ways so far: equal ways to get there are one."""
    states: list[tuple[SubGroup, ...]] = [()]
    for part in sorted(parts):
        grown = {(*state, part) for state in states}
        for state in states:
            grown |= {(*state[:i], _joined((state[i], part)), *state[i + 1 :]) for i in range(len(state))}
        states = sorted(grown, key=lambda state: (cost_rate(state), state))[:STATES]
    return states[0]


def _joined(parts: Sequence[SubGroup]) -> SubGroup:
    """Join sub-groups to one that is due as often as the most frequent."""
    members = tuple(sorted(member for part in parts for member in part.members))
    return SubGroup(min(p.period for p in parts), max(p.window for p in parts), members)


@compiled
def run_together(until_due: Array, group: Array, priority: Array, sharing: int, chosen: Array) -> int:
    """Mark the tasks that run next, and return the one they were chosen for (Algorithms 1, 2 and 3).

    The lowest time until the deadline goes first, then the highest priority, then the first named. All tasks are looked
    at: they are sub-groups, a few dozen for hundreds of queries, and every tick changes the time of each.
    """
    best = 0
    for task in range(1, until_due.shape[0]):
        sooner = until_due[task] < until_due[best]
        if sooner or (until_due[task] == until_due[best] and priority[task] > priority[best]):
            best = task
    lowest = until_due[best]
    for task in range(until_due.shape[0]):
        same_group = group[task] == group[best] and sharing != 0
        late = lowest < 0 and ((sharing == 2 and until_due[task] < 0) or (sharing == 3 and until_due[task] <= 0))
        chosen[task] = task == best or (same_group and (until_due[task] == lowest or late))
    return best
