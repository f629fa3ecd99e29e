"""Finds stretches of slices that end together, so that one pass over the slices serves all of them.

Read from the youngest slice to the oldest, every stretch that ends at one slice is where a longer one has been on its
way: its value is there for free (Golab, Bijay and Özsu 2006, §2.2).
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
class SweepStep:
    """The part of a sweep that one stretch adds to a shorter one: slices ``lo`` … ``hi - 1``, and who asks for it."""

    lo: int
    hi: int
    asked_by: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Stretches with one end, the shortest first."""

    end: int
    steps: tuple[SweepStep, ...]


def sweeps(lo: Int64Array, hi: Int64Array) -> Iterator[Sweep]:
    """Put stretches lo … hi - 1 with the same end together, in order of their ends; equal ones are one step."""
    order = np.lexsort((-lo, hi)).tolist()
    starts, ends = lo.tolist(), hi.tolist()
    place = 0
    while place < len(order):
        end, at, steps = ends[order[place]], ends[order[place]], list[SweepStep]()
        while place < len(order) and ends[order[place]] == end:
            start, asked = starts[order[place]], list[int]()
            while place < len(order) and (ends[order[place]], starts[order[place]]) == (end, start):
                asked.append(order[place])
                place += 1
            steps.append(SweepStep(start, at, tuple(asked)))
            at = start
        yield Sweep(end, tuple(steps))


def are_nested(lo: Int64Array, hi: Int64Array) -> bool:
    """Tell whether some stretch is the end of a longer one."""
    if len(hi) < 2:
        return False
    order = np.lexsort((lo, hi))
    starts, ends = lo[order], hi[order]
    return bool(((ends[1:] == ends[:-1]) & (starts[:-1] < ends[:-1])).any())


def swept_states(components: Iterable[Component]) -> Swept | None:
    """Return the states that have to be merged slice by slice; None: there are none, or frequency tables beside them.

    Frequency tables are merged by one pass over all that is stored, whatever the window.
    """
    states = frozenset(component for component in components if component.is_state)
    return None if not states or any(isinstance(one, FrequencyTable) for one in states) else states
