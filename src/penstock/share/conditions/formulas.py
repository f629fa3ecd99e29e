"""Evaluates formulas of tests for many cells at once, with Spark's three-valued logic and failures.

Four outcomes, in the order of evaluation: a part that fails counts only if evaluation reaches it, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.language.predicates.attributes import Attribute
from penstock.language.predicates.split import FAILED, FALSE, TRUE, UNKNOWN, Every, Formula, Leaf, leaves_of
from penstock.model.arrays import BoolArray
from penstock.share.conditions.axes import Axis, AxisKey, Outcomes, PlacedTest, constants_of, place

At = Callable[["PlacedLeaf"], Outcomes]
Known = Callable[["PlacedLeaf"], Outcomes | None]
Likeness: TypeAlias = int | tuple["Likeness", ...]

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
    leaves: tuple[PlacedLeaf, ...] = field(init=False, repr=False)
    axes: frozenset[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """List the tests once: they are asked for again and again."""
        found = tuple(leaf for part in self.parts for leaf in leaves(part))
        object.__setattr__(self, "leaves", found)
        object.__setattr__(self, "axes", frozenset(leaf.axis for leaf in found))


Placed = PlacedLeaf | PlacedChain


class Ground:
    """The axes of several groupings' formulas, and the place of every test on them."""

    def __init__(self, groupings: Sequence[Sequence[Formula]], attributes: Mapping[str, Attribute]) -> None:
        """Cut every axis by the constants of all tests on it."""
        every = [leaf for formulas in groupings for formula in formulas for leaf in leaves_of(formula)]
        self._tests = {leaf: place(leaf, attributes) for leaf in dict.fromkeys(every)}
        constants: dict[AxisKey, list[object]] = {}
        for test in self._tests.values():
            constants.setdefault(test.axis, []).extend(constants_of(test))
        self.axes = [Axis(key, values) for key, values in constants.items()]
        self._number = {axis.key: i for i, axis in enumerate(self.axes)}
        self._axis_of = {leaf: self._number[test.axis] for leaf, test in self._tests.items()}
        self._leaves: dict[Leaf, PlacedLeaf] = {}

    def axes_of(self, formula: Formula) -> frozenset[int]:
        """Return the axes that a formula's tests are on."""
        return frozenset(self._axis_of[leaf] for leaf in leaves_of(formula))

    def placed(self, formula: Formula) -> Placed:
        """Put the tests of a formula on their axes."""
        if not isinstance(formula, Leaf):
            return PlacedChain(isinstance(formula, Every), tuple(self.placed(part) for part in formula.parts))
        if formula not in self._leaves:
            self._leaves[formula] = _on_axis(formula, self._tests[formula], self.axes, self._number)
        return self._leaves[formula]


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


def leaves(formula: Placed) -> tuple[PlacedLeaf, ...]:
    """List the tests of a formula."""
    return (formula,) if isinstance(formula, PlacedLeaf) else formula.leaves


def axes_of(formula: Placed) -> frozenset[int]:
    """Return the axes that a formula's tests are on."""
    return frozenset((formula.axis,)) if isinstance(formula, PlacedLeaf) else formula.axes


class Cases:
    """What is decided of formulas in ``size`` cases where some tests are known; formulas alike are worked out once."""

    def __init__(self, known: Known, size: int) -> None:
        """Start; ``known`` gives a test's outcome in each case, or None."""
        self.known, self.size = known, size
        self._decided: dict[Likeness, npt.NDArray[np.int8]] = {}
        self._mattering: dict[Likeness, list[tuple[int, BoolArray]]] = {}

    def decided(self, formula: Placed) -> npt.NDArray[np.int8]:
        """Tell for each case whether a formula holds (1), does not (0) or depends on tests not known (OPEN)."""
        like = self._likeness(formula)
        if like not in self._decided:
            self._decided[like] = self._decide(formula)
        return self._decided[like]

    def mattering(self, formula: Placed) -> list[tuple[PlacedLeaf, BoolArray]]:
        """List the tests not known, each with the cases in which it still matters."""
        like = self._likeness(formula)
        if like not in self._mattering:
            self._mattering[like] = self._visited(formula)
        every = leaves(formula)
        return [(every[place_], alive) for place_, alive in self._mattering[like]]

    def _likeness(self, formula: Placed) -> Likeness:
        """Return what a formula has in common with those that differ from it in tests not known only."""
        if isinstance(formula, PlacedLeaf):
            return OPEN if self.known(formula) is None else (id(formula),)
        return (formula.every, *(self._likeness(part) for part in formula.parts))

    def _decide(self, formula: Placed) -> npt.NDArray[np.int8]:
        """Work out what is decided."""
        if isinstance(formula, PlacedLeaf):
            outcomes = self.known(formula)
            return np.full(self.size, OPEN, np.int8) if outcomes is None else (outcomes == TRUE).astype(np.int8)
        return _settled([self.decided(part) for part in formula.parts], self.size, every=formula.every)

    def _visited(self, formula: Placed) -> list[tuple[int, BoolArray]]:
        """Work out which tests matter when, by their place among the formula's tests."""
        found: list[tuple[int, BoolArray]] = []
        place_ = 0

        def visit(part: Placed, alive: BoolArray) -> None:
            nonlocal place_
            alive = alive & (self.decided(part) == OPEN)
            if isinstance(part, PlacedLeaf):
                if self.known(part) is None:
                    found.append((place_, alive))
                place_ += 1
                return
            for inner in part.parts:
                visit(inner, alive)

        visit(formula, np.ones(self.size, np.bool_))
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
