"""Reads the states of partial columns as arrays of objects, and merges any number of them.

A state is None, which holds nothing, or one object: a frequency table, a sketch's bytes, the struct picked, or what a
user's aggregate makes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from penstock.evaluate.components.component import Array, Column, Component, Plane, Planes, Values, Written
from penstock.evaluate.components.frequencies import objects
from penstock.evaluate.components.frequency_tables import FrequencyTables
from penstock.model.arrays import BoolArray, Int64Array

OBJECT: Final = Plane(np.dtype(object), None)
SMALL: Final = 64  # bytes that a picked struct takes at least


class State(Component):
    """A component whose values are states, in one plane of objects."""

    __slots__ = ()
    is_state: ClassVar = True

    @abstractmethod
    def lift_state(self, value: Written, time: str) -> str:
        """Write the one SQL aggregate that makes a state of rows."""

    @abstractmethod
    def read_states(self, column: Column) -> Iterator[Any]:
        """Read state after state of a partial column."""

    @abstractmethod
    def merge(self, states: Sequence[Any]) -> Any:
        """Merge two states or more, none of them None, into one."""

    def merge_several(self, groups: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """Merge the states of each group, two or more, into one."""
        return [self.merge(states) for states in groups]

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Say that it is one object."""
        return (OBJECT,)

    def lift(self, value: Written, time: str) -> list[str]:
        """Write the one aggregate."""
        return [self.lift_state(value, time)]

    def read(self, columns: Sequence[Column]) -> Values:
        """Read the states of the one column."""
        return objects(list(self.read_states(columns[0])))

    def combine(self, a: Planes, b: Planes) -> Planes:
        """Merge states element by element, in arrays of any equal shape."""
        pairs = zip(a[0].reshape(-1).tolist(), b[0].reshape(-1).tolist(), strict=True)
        found = [(one if other is None else other) if one is None or other is None else self.merge((one, other))
            for one, other in pairs]  # fmt: skip
        return (objects(found).reshape(a[0].shape),)

    def reduce(self, planes: Planes, starts: Int64Array) -> Planes:
        """Merge each run of states into one."""
        (plane,) = planes
        if isinstance(plane, FrequencyTables) and not plane.flat.values.dtype.hasobject:
            return (plane.reduced(starts).array,)
        plane = np.asarray(plane)
        found, lengths = plane[starts], np.diff(starts, append=len(plane))
        several = np.flatnonzero(lengths > 1)
        runs, states = zip(starts[several].tolist(), lengths[several].tolist(), strict=True), plane.tolist()
        groups = [[s for s in states[first : first + length] if s is not None] for first, length in runs]
        found[several] = objects(self.merge_each(groups))
        return (found,)

    def merge_each(self, groups: Sequence[Sequence[Any]]) -> list[Any]:
        """Merge the states of each group into one; None of none."""
        several = [place for place, states in enumerate(groups) if len(states) > 1]
        found = [states[0] if states else None for states in groups]
        if several:
            merged = self.merge_several([groups[place] for place in several])
            for place, state in zip(several, merged, strict=True):
                found[place] = state
        return found


def spread_states(states: Array, held: BoolArray) -> Array:
    """Give states, in order, the places that hold one; the others hold nothing."""
    if isinstance(states, FrequencyTables):
        return states.spread(held).array
    found = np.full(len(held), None, object)
    found[held] = states
    return found


def bytes_of(plane: Array) -> int:
    """Return about how much memory states take."""
    if isinstance(plane, FrequencyTables):
        return plane.nbytes
    return sum(_bytes(state) for state in plane.reshape(-1) if state is not None)


def _bytes(state: Any) -> int:
    """Return about how much memory one state takes."""
    return len(state) if isinstance(state, bytes) else getattr(state, "nbytes", SMALL)
