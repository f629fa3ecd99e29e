"""Chooses at which periods the queries of a group run, so that they share scans (Golab, Bijay and Özsu 2006, §4.2–4.3).

Queries of a group read one synopsis; those with the same slide form a sub-group. A slide is an upper bound: a sub-group
may run more often if it then runs with another one. Nothing here is compiled, as the live engine asks it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

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
    """Return the cost a tick: those due at one time share the longest scan; what is due too seldom shares none."""
    length = min(math.lcm(*(p.period for p in parts)), LONGEST)
    costs = np.zeros(length)
    for part in sorted(parts, key=lambda p: p.cost):
        costs[part.period - 1 :: part.period] = part.cost
    seldom = sum(part.cost / part.period for part in parts if part.period > length)
    return float(costs.sum() / length) + seldom


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


# -- live --------------------------------------------------------------------------------------------------------------

Periods = Callable[[Sequence[SubGroup]], tuple[SubGroup, ...]]
MOST_SLIDES: Final = 32  # of a group among which the search looks; of more, the longest stay as they are


@dataclass(frozen=True, slots=True)
class ChosenPeriods:
    """At which periods the queries of one group run, and what their scans cost then and at their own slides."""

    periods: Mapping[int, int]  # slide → period, in microseconds
    cost: float  # slices merged a second (§4.3)
    own_cost: float


def chosen_periods(windows: Iterable[tuple[int, int]], choose: Periods) -> ChosenPeriods:
    """Choose the periods of a group of queries (range, slide) in microseconds; the synopsis is cut as slides ask."""
    longest: dict[int, int] = {}
    for length, slide in windows:
        longest[slide] = max(length, longest.get(slide, 0))
    return _chosen(tuple((longest[slide], slide) for slide in sorted(longest)), choose)


@lru_cache(maxsize=1_000)
def _chosen(windows: tuple[tuple[int, int], ...], choose: Periods) -> ChosenPeriods:
    """Choose periods once for slides and their longest ranges: how many queries have them changes nothing."""
    tick = math.gcd(*(slide for _, slide in windows))
    parts = sub_groups((-(-length // tick), slide // tick) for length, slide in windows)
    joined = (*choose(parts[:MOST_SLIDES]), *parts[MOST_SLIDES:])
    found = {slide * tick: part.period * tick for part in joined for slide, _ in part.members}
    return ChosenPeriods(found, *(cost_rate(some) * 1_000_000 / tick for some in (joined, parts)))
