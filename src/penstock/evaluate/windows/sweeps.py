"""Finds stretches of slices that overlap, so that one pass over the slices serves all of them.

Read from the youngest slice to the oldest, every stretch that ends at one slice is where a longer one has been on its
way: its value is there for free (Golab, Bijay and Özsu 2006, §2.2). Stretches with other ends are read from an edge
that all of them meet, to both sides, and put together of two values, as a queue of two stacks does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from penstock.evaluate.components.component import Component
from penstock.evaluate.components.value_tables import FrequencyTable
from penstock.model.arrays import Int64Array

Swept = frozenset[Component]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Slices ``lo`` … ``hi - 1``, and the numbers of who asks for them."""

    lo: int
    hi: int
    asked_by: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Different stretches that all meet one edge between slices."""

    edge: int
    stretches: tuple[Stretch, ...]

    def backward(self) -> Iterator[tuple[int, int]]:
        """List what to read before the edge, step by step: from each start to the next later one."""
        starts = sorted({one.lo for one in self.stretches if one.lo < self.edge}, reverse=True)
        return zip(starts, [self.edge, *starts], strict=False)

    def forward(self) -> Iterator[tuple[int, int]]:
        """List what to read from the edge on, step by step: from each end to the next."""
        ends = sorted({one.hi for one in self.stretches if one.hi > self.edge})
        return zip([self.edge, *ends], ends, strict=False)

    @property
    def crossing(self) -> int:
        """Count the stretches on both sides of the edge, which are put together of two values."""
        return sum(one.lo < self.edge < one.hi for one in self.stretches)


def sweeps(lo: Int64Array, hi: Int64Array) -> list[Sweep]:
    """Put stretches lo … hi - 1 into sweeps, equal ones once; the edge of a sweep is the first end that is left."""
    asked: dict[tuple[int, int], list[int]] = {}
    for number in np.lexsort((-lo, hi)).tolist():
        asked.setdefault((int(lo[number]), int(hi[number])), []).append(number)
    left, longest, found = list(asked), int((hi - lo).max(initial=0)), list[Sweep]()
    taken, first = [False] * len(left), 0
    while first < len(left):
        edge, place, members = left[first][1], first, list[Stretch]()
        while place < len(left) and left[place][1] < edge + max(1, longest):
            stretch = left[place]
            if not taken[place] and (place == first or stretch[0] < edge):
                taken[place] = True
                members.append(Stretch(*stretch, tuple(asked[stretch])))
            place += 1
        found.append(Sweep(edge, tuple(members)))
        while first < len(left) and taken[first]:
            first += 1
    return found


def swept_states(components: Iterable[Component]) -> Swept | None:
    """Return the states that have to be merged slice by slice; None: there are none, or frequency tables beside them.

    Frequency tables are merged by one pass over all that is stored, whatever the window.
    """
    states = frozenset(component for component in components if component.is_state)
    return None if not states or any(isinstance(one, FrequencyTable) for one in states) else states
