"""Adds up rows and values of a sample by the weights of its rows, and what their errors are bounded by.

A row that is kept with probability 1/w counts w times. The sums of w and of w·x are then right on average, and
Σ w·(w - 1)·x² estimates their variance (Horvitz and Thompson 1952), as rows are kept or shed independently. Where rows
agree in every column they are kept or shed together, and it is greater: ``twins`` tells by what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import pyarrow as pa

from penstock.evaluate.components.component import Column, Component, Plane, Values, Written
from penstock.evaluate.components.numbers import INTEGER, Added, ExactSum, FloatSum
from penstock.evaluate.components.reading import integers
from penstock.evaluate.components.row_runs import RowColumn, RowRuns

LONGEST_DECIMAL: Final = 23  # digits: with those of a weight and of 10^10 rows they are 38
EXCESS: Final = 1  # the size of weights of excess: Σ w·(w - 1), the variance of a count
SQUARED: Final = 2  # the same squared, which tells how sure that is


class RowWeights(Added):
    """How many rows the kept ones stand for, int64[n]: of those with a value, or that ``keep`` holds for."""

    __slots__ = ()
    kind: ClassVar = "row_weights"
    invertible: ClassVar = True

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Say that it is one whole number."""
        return (INTEGER,)

    @property
    def worded(self) -> str:
        """Say what is counted."""
        kept = f" where {self.keep}" if self.keep else ""
        return f"weighted count({self.argument or '*'}){kept}"

    def _term(self, value: Written) -> str:
        """Write what a row adds."""
        counted, weight = _counted(self, value), value(self.more[0])
        return f"IF({counted}, {weight}, 0L)" if counted else weight

    def lift(self, value: Written, time: str) -> list[str]:
        """Add weights up."""
        return [f"sum({self._term(value)})"]

    def row_texts(self, value: Written, time: str) -> list[str]:
        """Write the weight."""
        return [self._term(value)]

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Add weights up."""
        return [runs.sums(column) for column in columns]

    def read(self, columns: Sequence[Column]) -> Values:
        """Read one bigint."""
        return integers(columns[0])


class WeightedSum(ExactSum):
    """Σ w·x of integers or decimals, in the limbs of an exact sum."""

    __slots__ = ()
    kind: ClassVar = "weighted"

    @property
    def worded(self) -> str:
        """Say what is added up."""
        return f"weighted sum({self.argument})"

    def _terms(self, value: Written) -> list[str]:
        """Write the terms of a row, as often as it counts."""
        assert self.argument is not None
        weight, x = value(self.more[0]), f"({value(self.argument)})"
        if self.limbs == 4:
            return [f"cast({weight} as decimal(4, 0)) * {x}"]
        return [f"{weight} * ({term})" for term in (self.terms(x) if self.limbs == 2 else [x])]

    def lift(self, value: Written, time: str) -> list[str]:
        """Sum the terms."""
        return [f"sum({term})" for term in self._terms(value)]

    def row_texts(self, value: Written, time: str) -> list[str]:
        """Write the terms."""
        return self._terms(value)


class WeightedFloatSum(FloatSum):
    """Σ w·x of doubles, float64[n]."""

    __slots__ = ()
    kind: ClassVar = "weighted_float"

    @property
    def worded(self) -> str:
        """Say what is added up."""
        return f"weighted sum({self.argument})"

    def _term(self, value: Written) -> str:
        """Write what a row adds."""
        assert self.argument is not None
        return f"{value(self.more[0])} * cast({value(self.argument)} as double)"

    def lift(self, value: Written, time: str) -> list[str]:
        """Sum the terms."""
        return [f"sum({self._term(value)})"]

    def row_texts(self, value: Written, time: str) -> list[str]:
        """Write the term."""
        return [self._term(value)]


class ExcessWeights(FloatSum):
    """Σ u of the rows that are counted, with u = w·(w - 1)·t, float64[n]: the variance of how many they stand for.

    t says how many rows agree. Of size 2 it is Σ (w·(w - 1))²·t³: where t rows at a time are one, that is Σ u² of them.
    """

    __slots__ = ()
    kind: ClassVar = "excess_weights"

    @property
    def worded(self) -> str:
        """Say whose bound needs it."""
        kept = f" where {self.keep}" if self.keep else ""
        return f"{'sureness' if self.size == SQUARED else 'bound'} of count({self.argument or '*'}){kept}"

    def _term(self, value: Written) -> str:
        """Write what a row adds."""
        weight, twins = value(self.more[0]), f"abs({value(self.more[1])})"
        excess = f"cast({weight} * ({weight} - 1L) as double)"
        added = [excess, excess, twins, twins, twins] if self.size == SQUARED else [excess, twins]
        counted = [f"{weight} > 1L", *filter(None, [_counted(self, value)])]
        return f"IF({' AND '.join(counted)}, {' * '.join(added)}, 0D)"

    def lift(self, value: Written, time: str) -> list[str]:
        """Add them up."""
        return [f"sum({self._term(value)})"]

    def row_texts(self, value: Written, time: str) -> list[str]:
        """Write the term."""
        return [self._term(value)]


class ExcessMoment(WeightedFloatSum):
    """Σ u·x^size with u = w·(w - 1)·t, float64[n]: 0 where every row was kept, whatever the values."""

    __slots__ = ()
    kind: ClassVar = "excess"

    @property
    def worded(self) -> str:
        """Say whose bound needs it."""
        whose = {1: "bound of avg", 2: "bound of sum", 3: "sureness of avg", 4: "sureness of sum"}
        return f"{whose[self.size]}({self.argument})"

    def _term(self, value: Written) -> str:
        """Write what a row adds."""
        assert self.argument is not None
        weight, twins = value(self.more[0]), f"abs({value(self.more[1])})"
        x = f"cast({value(self.argument)} as double)"
        added = [f"cast({weight} * ({weight} - 1L) as double)", twins, *[x] * self.size]
        return f"IF({weight} > 1L, {' * '.join(added)}, 0D)"


def _counted(component: Component, value: Written) -> str:
    """Write which rows are counted; nothing: all."""
    present = [f"({value(component.argument)}) IS NOT NULL"] if component.argument is not None else []
    return " AND ".join([*present, *([f"({value(component.keep)})"] if component.keep is not None else [])])


def weighted_sum(argument: str, type_: pa.DataType, weight: str) -> Component:
    """Return the sum of an argument by weights: of doubles a double, of others exact."""
    return (WeightedFloatSum if pa.types.is_floating(type_) else WeightedSum)(argument, type_, (weight,))
