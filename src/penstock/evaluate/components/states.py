"""Reads the states of partial columns as arrays of objects, and merges any number of them.

A state is None, which holds nothing, or one object: a frequency table, a sketch's bytes, the struct picked, or what a
user's aggregate makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.evaluate.components.component import Array, Column, Component
from penstock.evaluate.components.frequencies import (
    Frequencies,
    merge_frequencies,
    merge_many,
    objects,
    read_frequencies,
)
from penstock.evaluate.components.frequency_tables import FrequencyTables, are_flat, read_tables
from penstock.evaluate.components.ranked import greatest_of, least_of, read_ranked
from penstock.evaluate.components.reading import whole
from penstock.evaluate.components.sketches import merge_sketches
from penstock.evaluate.components.user_states import merge_user_states, read_user_states

SMALL = 64  # bytes that a picked struct takes at least


def read_states(component: Component, column: Column) -> Array:
    """Read the states of a partial column."""
    if are_flat(component):
        return read_tables(component, column).array
    return objects(list(_read(component, column)))


def _read(component: Component, column: Column) -> Iterator[Any]:
    """Read state after state."""
    match component.kind:
        case "frequencies" | "weights":
            return read_frequencies(component, column)
        case "arg_min" | "arg_max" | "first" | "last":
            return read_ranked(column)
        case "user":
            return read_user_states(component, column)
    return iter(whole(column).to_pylist())


def merge_states(component: Component, states: Sequence[Any]) -> Any:
    """Merge states, none of them None, into one."""
    if len(states) < 2:
        return states[0] if states else None
    match component.kind:
        case "frequencies" | "weights":
            return merge_frequencies(states)
        case "arg_min" | "arg_max" | "first":
            return least_of(states)
        case "last":
            return greatest_of(states)
        case "user":
            return merge_user_states(component, states)
    return merge_sketches(component, states)


def merge_each(component: Component, groups: Sequence[Sequence[Any]]) -> list[Any]:
    """Merge the states of each group into one; None of none."""
    several = [place for place, states in enumerate(groups) if len(states) > 1]
    found = [states[0] if states else None for states in groups]
    if not several:
        return found
    if component.kind in ("frequencies", "weights"):
        merged: list[Any] = list(merge_many([groups[place] for place in several]))
    else:
        merged = [merge_states(component, groups[place]) for place in several]
    for place, state in zip(several, merged, strict=True):
        found[place] = state
    return found


def combine_states(component: Component, a: Array, b: Array) -> Array:
    """Merge states element by element, in arrays of any equal shape."""
    found = np.empty(a.shape, object)
    flat, left, right = found.reshape(-1), a.reshape(-1), b.reshape(-1)
    for place in range(len(flat)):
        one, other = left[place], right[place]
        if one is None or other is None:
            flat[place] = one if other is None else other
        else:
            flat[place] = merge_states(component, (one, other))
    return found


def reduce_states(component: Component, plane: Array, starts: Array) -> Array:
    """Merge each run of states, given where runs begin, into one."""
    if isinstance(plane, FrequencyTables):
        return plane.reduced(starts).array
    bounds = [*starts.tolist(), len(plane)]
    runs = pairwise(bounds)
    return objects(merge_each(component, [[s for s in plane[lo:hi] if s is not None] for lo, hi in runs]))


def bytes_of(plane: Array) -> int:
    """Return about how much memory states take."""
    if isinstance(plane, FrequencyTables):
        return plane.nbytes
    return sum(_bytes(state) for state in plane.reshape(-1) if state is not None)


def _bytes(state: Any) -> int:
    """Return about how much memory one state takes."""
    if isinstance(state, Frequencies):
        return state.nbytes
    return len(state) if isinstance(state, bytes) else SMALL
