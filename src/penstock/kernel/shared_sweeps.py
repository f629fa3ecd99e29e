"""Merges the windows of several shapes of one lane in one sweep, where merging reads the slices of a window.

Prefixes and trees answer a window in a few steps, and frequency tables in one pass over all that is stored, whatever
the window: there, nothing is to be shared. A scan, and states that have to be merged one by one, read every slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.evaluate.components.numbers import Component, pick
from penstock.evaluate.windows.bundles import ColumnLane
from penstock.evaluate.windows.lanes import Lane, ScanLane
from penstock.evaluate.windows.partials import Merged, distinct_pairs, fill_empty
from penstock.evaluate.windows.sweeps import Swept, swept_states
from penstock.model.arrays import Int64Array


@dataclass(frozen=True, slots=True)
class AskedWindows:
    """The windows that a shape asks for, the components that it needs, and whether it answers windows without rows."""

    starts: Int64Array
    ends: Int64Array
    components: tuple[Component, ...]
    keep_empty: bool


def sweep_of(lane: Lane, components: Iterable[Component]) -> Swept | None:
    """Return what a sweep merges; shapes of a lane with the same share it. None: a shape is merged by itself."""
    if isinstance(lane, ScanLane):
        return frozenset(component for component in components if component.is_state)
    return None if isinstance(lane, ColumnLane) else swept_states(components)


def merged_together(asked: Sequence[AskedWindows], evaluate: Callable[..., Merged]) -> list[Merged]:
    """Merge the windows of all shapes, equal ones once, and give each shape what it asked for."""
    starts, ends = np.concatenate([one.starts for one in asked]), np.concatenate([one.ends for one in asked])
    place, chosen = distinct_pairs(ends, ends - starts)
    components = tuple(dict.fromkeys(component for one in asked for component in one.components))
    whole = evaluate(starts[chosen], ends[chosen], wanted=components)
    held, values = (
        np.searchsorted(whole.evaluation, np.arange(len(chosen) + 1)),
        dict(zip(components, whole.values, strict=True)),
    )
    parts = np.split(place, np.cumsum([len(one.ends) for one in asked])[:-1])
    found = []
    for one, wanted in zip(asked, parts, strict=True):
        lengths = held[wanted + 1] - held[wanted]
        rows = np.arange(int(lengths.sum())) + np.repeat(held[wanted] - (np.cumsum(lengths) - lengths), lengths)
        taken = tuple(pick(values[component], rows) for component in one.components)
        merged = Merged(np.repeat(np.arange(len(wanted)), lengths), whole.group[rows], taken)
        found.append(fill_empty(one.components, merged, len(wanted)) if one.keep_empty else merged)
    return found
