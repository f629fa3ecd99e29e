"""Formulas over placed tests come in with rows' positions on the axes; what each formula comes to goes out, as arrays.

Four outcomes, in the order of evaluation: a part that fails counts only if evaluation reaches it, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.language.attributes import Attribute
from penstock.language.predicates import FAILED, FALSE, TRUE, UNKNOWN, Every, Formula, Leaf, leaves_of
from penstock.share.axes import Axis, AxisKey, Outcomes, PlacedTest, constants_of, place

BoolArray = npt.NDArray[np.bool_]
At = Callable[["PlacedLeaf"], Outcomes]
Known = Callable[["PlacedLeaf"], Outcomes | None]

OPEN: Final = 2  # of what is not known yet, neither no (0) nor yes (1)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedLeaf:
    """One test: its axis, by number, and what it comes to at every position there."""

    axis: int
    outcomes: Outcomes


@dataclass(frozen=True, slots=True, eq=False)
class PlacedChain:
    """AND or OR of parts."""

    every: bool  # AND
    parts: tuple[Placed, ...]


Placed = PlacedLeaf | PlacedChain


def place_formulas(
    groupings: Sequence[Sequence[Formula]], attributes: Mapping[str, Attribute]
) -> tuple[list[Axis], list[list[Placed]]]:
    """Put every test of several groupings' formulas on its axis."""
    every = [leaf for formulas in groupings for formula in formulas for leaf in leaves_of(formula)]
    tests = {leaf: place(leaf, attributes) for leaf in dict.fromkeys(every)}
    constants: dict[AxisKey, list[object]] = {}
    for test in tests.values():
        constants.setdefault(test.axis, []).extend(constants_of(test))
    axes = [Axis(key, values) for key, values in constants.items()]
    number = {axis.key: i for i, axis in enumerate(axes)}
    on_axis = {leaf: _on_axis(leaf, test, axes, number) for leaf, test in tests.items()}

    def placed(formula: Formula) -> Placed:
        if isinstance(formula, Leaf):
            return on_axis[formula]
        return PlacedChain(isinstance(formula, Every), tuple(placed(part) for part in formula.parts))

    return axes, [[placed(formula) for formula in formulas] for formulas in groupings]


def _on_axis(leaf: Leaf, test: PlacedTest, axes: Sequence[Axis], number: Mapping[AxisKey, int]) -> PlacedLeaf:
    """Tabulate a test's outcome on its axis."""
    axis = number[test.axis]
    return PlacedLeaf(axis, np.array(leaf.turns, np.int8)[axes[axis].outcomes(test)])


def _table(stop: int) -> npt.NDArray[np.int8]:
    """Tabulate AND (stopped by FALSE) or OR (by TRUE): what comes of an outcome so far and the next part's."""
    table = np.empty((4, 4), np.int8)
    for before in range(4):
        for after in range(4):
            if before in (stop, FAILED):
                table[before, after] = before
            elif after in (stop, FAILED):
                table[before, after] = after
            else:
                table[before, after] = UNKNOWN if UNKNOWN in (before, after) else before
    return table


_AND: Final = _table(FALSE)
_OR: Final = _table(TRUE)


def evaluate(formula: Placed, at: At, size: int) -> Outcomes:
    """Evaluate a formula for ``size`` cells; ``at`` gives a test's outcome in each of them."""
    if isinstance(formula, PlacedLeaf):
        return at(formula)
    table = _AND if formula.every else _OR
    found = np.full(size, TRUE if formula.every else FALSE, np.int8)
    for part in formula.parts:
        found = table[found, evaluate(part, at, size)]
    return found


def leaves(formula: Placed) -> list[PlacedLeaf]:
    """List the tests of a formula."""
    if isinstance(formula, PlacedLeaf):
        return [formula]
    return [leaf for part in formula.parts for leaf in leaves(part)]


def axes_of(formula: Placed) -> frozenset[int]:
    """Return the axes that a formula's tests are on."""
    return frozenset(leaf.axis for leaf in leaves(formula))


def decided(formula: Placed, known: Known, size: int) -> npt.NDArray[np.int8]:
    """Tell for ``size`` cases whether a formula holds (1), does not (0) or depends on tests not known (OPEN)."""
    if isinstance(formula, PlacedLeaf):
        outcomes = known(formula)
        return np.full(size, OPEN, np.int8) if outcomes is None else (outcomes == TRUE).astype(np.int8)
    parts = [decided(part, known, size) for part in formula.parts]
    return _settled(parts, size, every=formula.every)


def mattering(formula: Placed, known: Known, size: int) -> list[tuple[PlacedLeaf, BoolArray]]:
    """List the tests not known, each with the cases in which it still matters."""
    found: list[tuple[PlacedLeaf, BoolArray]] = []

    def visit(part: Placed, alive: BoolArray) -> None:
        alive = alive & (decided(part, known, size) == OPEN)
        if isinstance(part, PlacedLeaf):
            if known(part) is None:
                found.append((part, alive))
            return
        for inner in part.parts:
            visit(inner, alive)

    visit(formula, np.ones(size, np.bool_))
    return found


def _settled(parts: Sequence[npt.NDArray[np.int8]], size: int, *, every: bool) -> npt.NDArray[np.int8]:
    """Combine what is known of the parts of AND or OR."""
    stop = 0 if every else 1
    found = np.full(size, 1 - stop, np.int8)
    for part in parts:
        found = np.where(
            (found == stop) | (part == stop), stop, np.maximum(found, part) if every else _either(found, part)
        )
    return found.astype(np.int8)


def _either(found: npt.NDArray[np.int8], part: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Combine two parts of OR, neither of which holds: open if one is."""
    return np.where((found == OPEN) | (part == OPEN), OPEN, 0).astype(np.int8)
