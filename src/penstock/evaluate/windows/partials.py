"""Sorts and compacts flat rows of partials, so that each pair of slice and group is one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.evaluate.components.frequency_tables import join_arrays
from penstock.evaluate.components.numbers import Component, Planes, Values
from penstock.model.arrays import Int64Array
from penstock.model.sorting import stable_order

Order: TypeAlias = npt.NDArray[np.intp] | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Partials:
    """Flat rows: a slice label and a group each, and the planes of every component."""

    labels: Int64Array
    groups: Int64Array
    planes: tuple[Planes, ...]

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.labels)

    @property
    def nbytes(self) -> int:
        """Return how much memory the rows take, states not counted."""
        return int(self.labels.nbytes + self.groups.nbytes) + sum(int(p.nbytes) for part in self.planes for p in part)

    def take(self, rows: Order | npt.NDArray[np.bool_]) -> Partials:
        """Return some of the rows."""
        planes = tuple(tuple(plane[rows] for plane in part) for part in self.planes)
        return Partials(self.labels[rows], self.groups[rows], planes)


@dataclass(frozen=True, slots=True)
class Distinct:
    """The distinct labels of some rows, in order, and which of them each row has."""

    labels: Int64Array
    places: Int64Array

    @staticmethod
    def of(labels: Int64Array) -> Distinct:
        """Tell labels apart: of many rows there are few, so that hashing beats sorting."""
        encoded = pa.array(labels).dictionary_encode()
        known = encoded.dictionary.to_numpy()
        order = np.argsort(known)
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return Distinct(known[order], places[encoded.indices.to_numpy()])

    def take(self, rows: Order) -> Distinct:
        """Return some of the rows; a label that none of them has may stay."""
        return Distinct(self.labels, self.places[rows])

    def held(self) -> Int64Array:
        """Return the labels that some row has, in order."""
        return self.labels[np.bincount(self.places, minlength=len(self.labels)) > 0]


@dataclass(frozen=True, slots=True)
class Merged:
    """Answers in the raw: one row per evaluation and group that holds rows, ordered by evaluation, then group."""

    evaluation: Int64Array
    group: Int64Array
    values: tuple[Values, ...]


def no_partials(components: Sequence[Component]) -> Partials:
    """Return partials without rows."""
    return Partials(np.empty(0, np.int64), np.empty(0, np.int64), tuple(c.identities(0) for c in components))


def concatenate(parts: Sequence[Partials]) -> Partials:
    """Put the rows of several partials of the same components one after the other."""
    if len(parts) == 1:
        return parts[0]
    labels, groups = (np.concatenate(columns) for columns in zip(*((p.labels, p.groups) for p in parts), strict=True))
    return Partials(labels, groups, join_planes([part.planes for part in parts]))


def join_planes(parts: Sequence[tuple[Planes, ...]]) -> tuple[Planes, ...]:
    """Concatenate planes component by component."""
    return tuple(tuple(join_arrays(planes) for planes in zip(*same, strict=True)) for same in zip(*parts, strict=True))


def compact(components: Sequence[Component], partials: Partials) -> Partials:
    """Sort by label, then group, and combine the rows of a repeated pair."""
    order = sort_pairs(partials.labels, partials.groups)
    if order is not None:
        partials = partials.take(order)
    starts = run_starts(partials.labels, partials.groups)
    if len(starts) == len(partials):
        return partials
    planes = tuple(reduce_runs(c, p, starts) for c, p in zip(components, partials.planes, strict=True))
    return Partials(partials.labels[starts], partials.groups[starts], planes)


def sort_pairs(first: Int64Array, second: Int64Array) -> Order | None:
    """Return the stable order of pairs, the second number at least 0; None if they are in order already."""
    if len(first) < 2:
        return None
    low, width = int(first.min()), int(second.max()) + 1
    if (int(first.max()) - low + 1) * width >= 1 << 63:
        return np.lexsort((second, first))
    key = (first - low) * width + second
    return None if bool((key[1:] >= key[:-1]).all()) else stable_order(key, int(key.max()) + 1)


def run_starts(first: Int64Array, second: Int64Array) -> Int64Array:
    """Return where each run of equal pairs begins."""
    if not len(first):
        return np.empty(0, np.int64)
    changes = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    return np.concatenate([[0], np.flatnonzero(changes) + 1]).astype(np.int64)


def distinct_pairs(first: Int64Array, second: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Number pairs, equal ones alike; also return where one of each number stands. If all differ, they stay in order.

    The second number is at least 0.
    """
    order = sort_pairs(first, second)
    order = np.arange(len(first)) if order is None else order
    runs = run_starts(first[order], second[order])
    if len(runs) == len(first):
        return np.arange(len(first)), np.arange(len(first))
    numbers = np.empty(len(first), np.int64)
    numbers[order] = np.repeat(np.arange(len(runs)), np.diff(runs, append=len(first)))
    return numbers, np.asarray(order[runs], np.int64)


def reduce_runs(component: Component, planes: Planes, starts: Int64Array) -> Planes:
    """Combine each run of rows, given where runs begin, into one row."""
    return planes if len(starts) == len(planes[0]) else component.reduce(planes, starts)


def fill_empty(components: Sequence[Component], merged: Merged, evaluations: int) -> Merged:
    """Add a row of identities for group 0 to each evaluation that has none."""
    empty = np.ones(evaluations, np.bool_)
    empty[merged.evaluation[merged.group == 0]] = False
    missing = np.flatnonzero(empty)
    if not len(missing):
        return merged
    evaluation = np.concatenate([merged.evaluation, missing])
    group = np.concatenate([merged.group, np.zeros(len(missing), np.int64)])
    order = np.lexsort((group, evaluation))
    nothing = tuple(c.values_from(c.identities(len(missing))) for c in components)
    values = tuple(_interleave(a, b, order) for a, b in zip(merged.values, nothing, strict=True))
    return Merged(evaluation[order], group[order], values)


def _interleave(a: Values, b: Values, order: Order) -> Values:
    """Concatenate two columns of values and reorder them."""
    if isinstance(a, tuple):
        return tuple(np.concatenate(pair)[order] for pair in zip(a, b, strict=True))
    return np.concatenate([a, np.asarray(b)])[order]
