"""Holds the states of a stretch of slices by column, only of the columns that have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.evaluate.components.component import Array
from penstock.evaluate.components.states import State
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.sorting import stable_order


@dataclass(frozen=True, slots=True)
class HeldStates:
    """Columns in order, each once, and their states."""

    columns: Int64Array
    states: Array

    @staticmethod
    def of(columns: Int64Array, states: Array) -> HeldStates:
        """Leave out the columns without a state."""
        held = _held(states)
        return HeldStates(columns, states) if held.all() else HeldStates(columns[held], states[held])

    @staticmethod
    def merged(component: State, parts: Sequence[HeldStates]) -> HeldStates:
        """Merge several states of each column, in the order of their parts; what is alone is taken as it is."""
        filled = [part for part in parts if len(part.columns)]
        if len(filled) < 2:
            return filled[0] if filled else NO_STATES
        columns = np.concatenate([part.columns for part in filled])
        order = stable_order(columns, int(columns.max()) + 1)
        columns, states = columns[order], np.concatenate([part.states for part in filled])[order]
        starts = np.flatnonzero(np.append(True, columns[1:] != columns[:-1]))
        if len(starts) == len(columns):
            return HeldStates(columns, states)
        return HeldStates(columns[starts], component.reduce((states,), starts)[0])

    def moved(self, columns: Int64Array) -> HeldStates:
        """Give columns their new numbers, in the same order as the old ones; those without one, −1, are forgotten."""
        found = columns[self.columns]
        kept = found >= 0
        return HeldStates(found[kept], self.states[kept])


def _held(states: Array) -> BoolArray:
    """Tell which states are there."""
    return np.fromiter((state is not None for state in states.tolist()), np.bool_, len(states))


NO_STATES: Final = HeldStates(np.empty(0, np.int64), np.empty(0, object))
