"""Numbers the cells of rows that all predicates treat alike, and computes each cell's signature.

The constants of all predicates cut every attribute's line (`share/conditions/axes.py`). Conditions that test the same
attributes form a part; booleans that many of them test (is a member, matched a join) are its heads. Where a part's
cells can all be listed, equal signatures are one number, so rows are grouped by fragment at once (Krishnamurthy, Wu
and Franklin 2006, §4.2); otherwise they are grouped by cell, and the driver looks signatures up, each cell's once.
Parts on their own cost a copy of the rows, and save the product of their attributes' cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.language.predicates.split import FAILED, TRUE
from penstock.model.arrays import BoolArray, Int64Array
from penstock.share.conditions.axes import FAILED_AT, Axis, Outcomes
from penstock.share.conditions.condition_groups import MOST_HEADS, often_first
from penstock.share.conditions.formulas import (
    Cases,
    Placed,
    PlacedLeaf,
    axes_of,
    evaluate,
    leaves,
)
from penstock.share.plan import BITS_PER_WORD

MOST_LISTED: Final = 65_536  # cells of a part that are all listed beforehand
NOBODY: Final = 0  # the number of rows that no condition takes


@dataclass(frozen=True, slots=True, eq=False)
class Digit:
    """A number looked up by a row's position on an axis; ``starts`` by head where the table is one for each."""

    axis: int
    table: Int64Array
    starts: Int64Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CellPart:
    """Conditions told apart by one number: ``numbers[…]`` of the sum of its digits, or that sum itself.

    A row's head is the sum of ``heads``; it chooses where the tables of the other digits start.
    """

    conditions: tuple[int, ...]  # by their place in the grouping
    formulas: tuple[Placed, ...]
    heads: tuple[Digit, ...]
    head_classes: tuple[Int64Array, ...]  # for each head, a position for each of its classes
    digits: tuple[Digit, ...]
    bases: Int64Array  # by head: where its cells begin
    dead: BoolArray  # by head: no condition takes such rows
    shapes: tuple[tuple[Int64Array, ...], ...]  # by head, for each digit: a position for each of its classes
    numbers: Int64Array | None  # by cell: its fragment, or −1 where no condition takes it; None: too many to list
    fragments: Signatures | None
    first: int  # all numbers of the part begin here
    words: int  # of a signature

    def starting_at(self, first: int) -> CellPart:
        """Return the part with its numbers beginning elsewhere."""
        numbers = self.numbers
        moved = None if numbers is None else np.where(numbers < 0, -1, numbers + (first - self.first))
        return replace(self, first=first, numbers=moved)

    @property
    def cells(self) -> int:
        """Return how many cells the part may have."""
        return int(sum(prod(len(classes) for classes in shape) for shape in self.shapes))


@dataclass(frozen=True, slots=True, eq=False)
class Signatures:
    """The conditions that take the rows of some numbers, as words of bits, and those that fail on them."""

    words: Int64Array  # [number, word]
    failed: BoolArray  # by number: some condition fails


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """All that tells the rows of several groupings apart: axes in common, and parts for each grouping."""

    axes: tuple[Axis, ...]
    parts: tuple[tuple[CellPart, ...], ...]


def number_part(axes: Sequence[Axis], formulas: Sequence[Placed], conditions: tuple[int, ...], words: int) -> CellPart:
    """Number the cells of a part, from 0 on."""
    used = sorted(frozenset().union(*(axes_of(one) for one in formulas)) if formulas else ())
    heads = _heads_of(axes, formulas, used)
    others = [axis for axis in used if axis not in heads]
    head_digits, head_classes = _head_digits(axes, formulas, heads)
    count = prod(len(classes) for classes in head_classes)
    cases = _cases(heads, head_classes, count)
    shapes_by_axis = _classes_by_head(axes, formulas, others, cases)
    digits, bases, shapes = _number_cells(axes, others, shapes_by_axis, count)
    dead = _dead(axes, formulas, cases)
    part = CellPart(
        conditions, tuple(formulas), head_digits, head_classes, digits, bases, dead, shapes, None, None, 0, words
    )
    if part.cells > MOST_LISTED:
        return part
    return _fragments(part, signatures(part, np.arange(part.cells)))


def _heads_of(axes: Sequence[Axis], formulas: Sequence[Placed], used: Sequence[int]) -> list[int]:
    """Choose a part's heads: its booleans, while their combinations stay few, if another attribute is left."""
    booleans = [axis for axis in used if axes[axis].key.kind == "boolean"]
    uses = {axis: sum(axis in axes_of(one) for one in formulas) for axis in booleans}
    heads: list[int] = []
    size = 1
    for axis in often_first(uses):
        size *= 4 if axes[axis].key.attribute.may_fail else 3
        if size <= MOST_HEADS:
            heads.append(axis)
    return sorted(heads)


def _outcome_rows(formulas: Sequence[Placed], axis: int) -> list[PlacedLeaf]:
    """List the distinct tests on an axis."""
    found = {id(leaf): leaf for one in formulas for leaf in leaves(one) if leaf.axis == axis}
    return list(found.values())


def _classes(axis: Axis, tests: Sequence[Outcomes]) -> Int64Array:
    """Number the positions of an axis so that those where all tests come out the same have one number."""
    changes = np.zeros(axis.size - 1, np.bool_)
    for outcomes in tests:
        changes |= outcomes[1:] != outcomes[:-1]  # most positions are as the one before
    if tests and not axis.key.attribute.may_fail:
        changes[FAILED_AT - 1 : FAILED_AT + 1] = False, True  # nothing fails: the position is as good as NULL's
    runs = np.concatenate([[0], np.flatnonzero(changes) + 1])
    known: dict[bytes, int] = {}
    rows = np.array([outcomes[runs] for outcomes in tests], np.int8).reshape(len(tests), len(runs))
    found = [known.setdefault(row.tobytes(), len(known)) for row in np.ascontiguousarray(rows.T)]
    return np.repeat(np.array(found, np.int64), np.diff(np.append(runs, axis.size)))


def _head_digits(
    axes: Sequence[Axis], formulas: Sequence[Placed], heads: Sequence[int]
) -> tuple[tuple[Digit, ...], tuple[Int64Array, ...]]:
    """Number the combinations of the heads' values."""
    digits, classes, stride = [], [], 1
    for axis in heads:
        numbered = _classes(axes[axis], [leaf.outcomes for leaf in _outcome_rows(formulas, axis)])
        digits.append(Digit(axis, numbered * stride))
        classes.append(_representatives(numbered))
        stride *= len(classes[-1])
    return tuple(digits), tuple(classes)


def _representatives(numbered: Int64Array) -> Int64Array:
    """Return a position for each class."""
    return np.unique(numbered, return_index=True)[1].astype(np.int64)


def _head_positions(head_classes: Sequence[Int64Array], heads: Int64Array) -> list[Int64Array]:
    """Return for each head axis the positions that combinations stand for."""
    found, rest = [], heads
    for classes in head_classes:
        found.append(classes[rest % len(classes)])
        rest = rest // len(classes)
    return found


def _dead(
    axes: Sequence[Axis],
    formulas: Sequence[Placed],
    cases: Cases,
) -> BoolArray:
    """Tell in which heads no condition takes or fails on a row, whatever else it holds."""
    dead = np.ones(cases.size, np.bool_)
    for one in formulas:
        if _careful(axes, one):
            return np.zeros(cases.size, np.bool_)
        dead &= cases.decided(one) == 0
    return dead


def _careful(axes: Sequence[Axis], formula: Placed) -> bool:
    """Tell whether some test of a formula may fail."""
    return any(axes[leaf.axis].key.attribute.may_fail for leaf in leaves(formula))


def _cases(heads: Sequence[int], head_classes: Sequence[Int64Array], count: int) -> Cases:
    """Look up what tests on the heads come to in each of their combinations."""
    positions = dict(zip(heads, _head_positions(head_classes, np.arange(count)), strict=True))

    def known(leaf: PlacedLeaf) -> Outcomes | None:
        return leaf.outcomes[positions[leaf.axis]] if leaf.axis in positions else None

    return Cases(known, count)


def _classes_by_head(
    axes: Sequence[Axis],
    formulas: Sequence[Placed],
    others: Sequence[int],
    cases: Cases,
) -> list[list[Int64Array]]:
    """Number, for every other axis and each head, the positions that conditions still tell apart."""
    alive: dict[int, tuple[PlacedLeaf, BoolArray]] = {}
    count = cases.size
    for one in formulas:
        careful = _careful(axes, one)
        for leaf, when in cases.mattering(one):
            when = np.ones(count, np.bool_) if careful else when
            before = alive.get(id(leaf))
            alive[id(leaf)] = leaf, when if before is None else before[1] | when
    return [
        _axis_classes(axes[axis], [pair for pair in alive.values() if pair[0].axis == axis], count) for axis in others
    ]


def _axis_classes(axis: Axis, alive: Sequence[tuple[PlacedLeaf, BoolArray]], count: int) -> list[Int64Array]:
    """Number an axis's positions for each head; heads in which the same tests matter share the work."""
    masks = np.array([when for _, when in alive], np.bool_).reshape(len(alive), count)
    known: dict[bytes, Int64Array] = {}
    found = []
    for head in range(count):
        mask = masks[:, head]
        key = mask.tobytes()
        if key not in known:
            known[key] = _classes(axis, [alive[at][0].outcomes for at in np.flatnonzero(mask).tolist()])
        found.append(known[key])
    return found


def _number_cells(
    axes: Sequence[Axis], others: Sequence[int], classes: Sequence[Sequence[Int64Array]], count: int
) -> tuple[tuple[Digit, ...], Int64Array, tuple[tuple[Int64Array, ...], ...]]:
    """Give each head's cells numbers after one another, mixed by radix within a head."""
    tables: list[list[Int64Array]] = [[] for _ in others]
    bases, shapes, base = [], [], 0
    for head in range(count):
        stride, shape = 1, []
        for place_, numbered in enumerate(by_head[head] for by_head in classes):
            tables[place_].append(numbered * stride)
            shape.append(_representatives(numbered))
            stride *= len(shape[-1])
        bases.append(base)
        shapes.append(tuple(shape))
        base += stride
    digits = []
    for place_, axis in enumerate(others):
        starts = np.arange(count, dtype=np.int64) * axes[axis].size
        digits.append(Digit(axis, np.concatenate(tables[place_]), starts if count > 1 else None))
    return tuple(digits), np.array(bases, np.int64), tuple(shapes)


def _fragments(part: CellPart, listed: Signatures) -> CellPart:
    """Give cells of one signature one number; none to those that no condition takes."""
    rows = np.ascontiguousarray(np.column_stack([listed.words, listed.failed.astype(np.int64)]))
    kinds, inverse = np.unique(rows, axis=0, return_inverse=True)
    inverse = inverse.ravel()
    taken = (kinds != 0).any(axis=1)
    numbers = np.full(len(kinds), -1, np.int64)
    numbers[taken] = np.arange(int(taken.sum()))
    kept = Signatures(np.ascontiguousarray(kinds[taken, :-1]), kinds[taken, -1] != 0)
    return replace(part, numbers=numbers[inverse], fragments=kept)


def signatures(part: CellPart, cells: Int64Array) -> Signatures:
    """Evaluate a part's conditions in some of its cells, counted from 0."""
    packed = np.zeros((len(cells), part.words), np.int64)
    failed = np.zeros(len(cells), np.bool_)
    for condition, outcomes in _evaluated(part, cells):
        word, bit = divmod(condition, BITS_PER_WORD)
        packed[:, word] |= (outcomes == TRUE).astype(np.int64) << bit
        failed |= outcomes == FAILED
    return Signatures(packed, failed)


def failing(part: CellPart, cells: Int64Array) -> set[int]:
    """List the conditions of a part that fail in some of its cells, counted from 0."""
    return {condition for condition, outcomes in _evaluated(part, cells) if (outcomes == FAILED).any()}


def positions_of(part: CellPart, cells: Int64Array) -> dict[int, Int64Array]:
    """Return, for every axis of a part, the positions that stand for its cells, counted from 0."""
    heads = np.searchsorted(part.bases, cells, side="right") - 1
    found = dict(zip([s.axis for s in part.heads], _head_positions(part.head_classes, heads), strict=True))
    return found | _positions(part, cells - part.bases[heads], heads)


def _evaluated(part: CellPart, cells: Int64Array) -> Iterator[tuple[int, npt.NDArray[np.int8]]]:
    """Evaluate each condition of a part in some of its cells."""
    positions = positions_of(part, cells)
    memo: dict[int, npt.NDArray[np.int8]] = {}

    def at(leaf: PlacedLeaf) -> npt.NDArray[np.int8]:
        if id(leaf) not in memo:
            memo[id(leaf)] = leaf.outcomes[positions[leaf.axis]]
        return memo[id(leaf)]

    for condition, formula in zip(part.conditions, part.formulas, strict=True):
        yield condition, evaluate(formula, at, len(cells))


def _positions(part: CellPart, rest: Int64Array, heads: Int64Array) -> dict[int, Int64Array]:
    """Return for each other axis the position that stands for a cell's class there."""
    found = {digit.axis: np.zeros(len(rest), np.int64) for digit in part.digits}
    for head in np.unique(heads):
        rows = np.flatnonzero(heads == head)
        left = rest[rows]
        for digit, classes in zip(part.digits, part.shapes[head], strict=True):
            found[digit.axis][rows] = classes[left % len(classes)]
            left = left // len(classes)
    return found
