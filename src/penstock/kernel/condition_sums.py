"""Adds up the partials of signatures for every condition at once, by products of matrices.

A partial belongs to a signature, and a signature to many conditions: to list all pairs of a partial and a condition
that takes it costs much more than the partials themselves. Sums need no such list. With one row for each slice and one
column for each signature, what the conditions hold is the product of that matrix and of the one that tells which
signature each condition takes. Only what is combined by adding can be had this way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.evaluate.components.numbers import Added, Array, Component, Planes, Values, pick
from penstock.evaluate.windows.partials import Distinct
from penstock.model.arrays import BoolArray, Int64Array
from penstock.model.sorting import stable_order
from penstock.share.conditions.fragments import Words, takes

EXACT: Final = float(1 << 53)  # whole numbers below it are doubles, and so are their sums
MOST_CELLS: Final = 1 << 22  # of a matrix at a time
PRODUCTS_A_PAIR: Final = 100  # multiplications that take about as long as one pair of a partial and a condition
FEW_PAIRS: Final = 50_000  # up to so many are listed in less time than it takes to look at them
_ODD: Final = 0x9E3779B97F4A7C15  # by which words are mixed into one number

Float64Array = npt.NDArray[np.float64]
Held = tuple[Int64Array, Int64Array, list[Values]]  # labels, conditions by their place, values


def held_by_conditions(
    components: Sequence[Component],
    values: Mapping[Component, Values],
    slices: Distinct,
    words: Words,
    conditions: Sequence[int],
) -> Iterator[Held] | None:
    """Add up what conditions hold of each slice; None: to list pairs is better, or sums would not be exact.

    ``words`` are the signatures of the partials, ``slices`` tells their labels. The first component counts rows.
    """
    if len(slices.places) * len(conditions) <= FEW_PAIRS or not all(isinstance(c, Added) for c in components):
        return None
    signatures = _Signatures.of(words, conditions)
    if signatures is None or not signatures.pays(len(slices.labels)):
        return None
    planes = [component.planes_of(values[component]) for component in components]
    if not all(_is_exact(plane) for each in planes for plane in each):
        return None
    return _products(components, planes, slices, signatures)


@dataclass(frozen=True, slots=True)
class _Signatures:
    """The distinct signatures of partials, and which conditions take each."""

    of_partial: Int64Array
    sizes: Int64Array  # partials of each signature
    taken: BoolArray  # [signature, condition]

    @staticmethod
    def of(words: Words, conditions: Sequence[int]) -> _Signatures | None:
        """Tell signatures apart by one number each; None: two that differ have the same one."""
        mixed = np.zeros(len(words[0]), np.uint64)
        for word in words:
            mixed = (mixed ^ (mixed >> np.uint64(29)) ^ word.view(np.uint64)) * np.uint64(_ODD)
        encoded = pa.array(mixed).dictionary_encode()
        of_partial = encoded.indices.to_numpy().astype(np.int64)
        first = np.zeros(len(encoded.dictionary), np.int64)
        first[of_partial[::-1]] = np.arange(len(of_partial))[::-1]
        if not all(np.array_equal(word[first][of_partial], word) for word in words):
            return None
        known = [word[first] for word in words]
        taken = np.stack([takes(known, condition) for condition in conditions], axis=1)
        return _Signatures(of_partial, np.bincount(of_partial, minlength=len(first)), taken)

    def pays(self, slices: int) -> bool:
        """Tell whether products take less time than pairs."""
        pairs = int(self.sizes @ self.taken.sum(axis=1))
        products = slices * sum(len(rows) * len(columns) for rows, columns in self.blocks())
        return products < PRODUCTS_A_PAIR * pairs

    def blocks(self) -> Iterator[tuple[Int64Array, Int64Array]]:
        """List signatures and conditions that have to do with each other and with no others."""
        left = np.flatnonzero(self.taken.any(axis=0))
        while len(left):
            columns = left[:1]
            while True:
                rows = np.flatnonzero(self.taken[:, columns].any(axis=1))
                wider = np.flatnonzero(self.taken[rows].any(axis=0))
                if len(wider) == len(columns):
                    break
                columns = wider
            yield rows, columns
            left = np.setdiff1d(left, columns)


def _is_exact(plane: Array) -> bool:
    """Tell whether a plane's sums are the same as doubles; a NaN or an infinity would reach every condition."""
    if plane.dtype == np.float64:
        return bool(np.isfinite(plane).all())
    return float(np.abs(plane.astype(np.float64)).sum()) < EXACT


def _products(
    components: Sequence[Component], planes: Sequence[Planes], slices: Distinct, signatures: _Signatures
) -> Iterator[Held]:
    """Multiply block by block, some slices at a time."""
    order = stable_order(slices.places, len(slices.labels))
    places, of_partial = slices.places[order].astype(np.int64), signatures.of_partial[order]
    numbered = np.full(len(signatures.sizes), -1, np.int64)
    for rows, columns in signatures.blocks():
        numbered[:] = -1
        numbered[rows] = np.arange(len(rows))
        chosen = np.flatnonzero(numbered[of_partial] >= 0)
        taken = signatures.taken[np.ix_(rows, columns)].astype(np.float64)
        step = max(1, MOST_CELLS // len(rows))
        for first in range(0, len(slices.labels), step):
            count = min(step, len(slices.labels) - first)
            some = chosen[slice(*np.searchsorted(places[chosen], (first, first + count)))]
            if not len(some):
                continue
            cells = (places[some] - first) * len(rows) + numbered[of_partial[some]]
            matrix = _Matrix(cells, (count, len(rows)), taken, order[some])
            yield _held(components, planes, matrix, slices.labels[first : first + count], columns)


@dataclass(frozen=True, slots=True)
class _Matrix:
    """Where partials stand in a matrix of slices and signatures, and which conditions take these."""

    cells: Int64Array
    shape: tuple[int, int]
    taken: Float64Array  # [signature, condition]
    partials: Int64Array

    def times(self, plane: Array) -> Array:
        """Put a plane into the matrix, and add it up for each slice and condition."""
        size = self.shape[0] * self.shape[1]
        held = np.bincount(self.cells, plane[self.partials].astype(np.float64), size).reshape(self.shape)
        with np.errstate(all="ignore"):
            product = held @ self.taken
        return product if plane.dtype == np.float64 else np.rint(product).astype(plane.dtype)


def _held(
    components: Sequence[Component],
    planes: Sequence[Planes],
    matrix: _Matrix,
    labels: Int64Array,
    columns: Int64Array,
) -> Held:
    """Return what conditions hold, where they hold a row."""
    sums = [tuple(matrix.times(plane) for plane in each) for each in planes]
    place, column = np.nonzero(sums[0][0])
    flat = place * len(columns) + column
    values = [
        component.values_from(tuple(plane.reshape(-1) for plane in each))
        for component, each in zip(components, sums, strict=True)
    ]
    return labels[place], columns[column], [pick(value, flat) for value in values]
