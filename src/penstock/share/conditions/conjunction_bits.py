"""Evaluates thousands of conjunctions in many cells at once: a bit for each, ANDed over the attributes that they test.

Where a cell stands on an axis tells which conditions' tests on that axis hold, as a row of bits. A conjunction holds in
a cell where all its tests do. So a cell costs some words for each axis, whatever the conditions are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.language.predicates.split import TRUE
from penstock.model.arrays import Int64Array
from penstock.share.conditions.axes import Axis
from penstock.share.conditions.cells import CellPart, positions_of
from penstock.share.conditions.formulas import Placed, PlacedLeaf

Bits = npt.NDArray[np.uint8]
CELLS_AT_ONCE = 8_192
MOST_BYTES = 1 << 29  # of the tables of a part


@dataclass(frozen=True, slots=True)
class ConjunctionBits:
    """The tests of a part's conditions: for every axis, by position, a bit for each condition."""

    part: CellPart
    tables: dict[int, Bits]

    def pieces(self, cells: Int64Array) -> Iterator[Bits]:
        """Tell which conditions take cells, counted from 0, some cells at once."""
        for start in range(0, len(cells), CELLS_AT_ONCE):
            positions = positions_of(self.part, cells[start : start + CELLS_AT_ONCE])
            several = [table[positions[axis]] for axis, table in self.tables.items()]
            yield np.bitwise_and.reduce(several) if len(several) > 1 else several[0]


def conjunction_bits(part: CellPart, axes: Sequence[Axis]) -> ConjunctionBits | None:
    """Prepare the tables of a part; None: some condition is no conjunction, or may fail, or they would be too large."""
    every = [_tests(formula) for formula in part.formulas]
    tests = [one for one in every if one is not None]
    used = {leaf.axis for one in tests for leaf in one}
    if len(tests) < len(every) or any(axes[axis].key.attribute.may_fail for axis in used):
        return None
    sizes = {leaf.axis: len(leaf.outcomes) for one in tests for leaf in one}
    width = -(-len(tests) // 8)
    if not sizes or sum(sizes.values()) * width > MOST_BYTES:
        return None
    tables = {axis: _table(axis, size, tests) for axis, size in sizes.items()}
    return ConjunctionBits(part, tables)


def _table(axis: int, size: int, tests: Sequence[Sequence[PlacedLeaf]]) -> Bits:
    """Tell for every position of an axis which conditions may hold there, as far as that axis is concerned."""
    holds = np.ones((len(tests), size), np.bool_)
    for place, one in enumerate(tests):
        for leaf in one:
            if leaf.axis == axis:
                holds[place] &= leaf.outcomes == TRUE
    return np.ascontiguousarray(np.packbits(holds, axis=0, bitorder="little").T)


def _tests(formula: Placed) -> Sequence[PlacedLeaf] | None:
    """List the tests of a conjunction; None: it is none."""
    if isinstance(formula, PlacedLeaf):
        return [formula]
    parts = [part for part in formula.parts if isinstance(part, PlacedLeaf)]
    return parts if formula.every and len(parts) == len(formula.parts) else None
