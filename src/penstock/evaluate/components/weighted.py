"""Adds up rows and values of a sample by the weights of its rows, and what their errors are bounded by.

A row that is kept with probability 1/w counts w times. The sums of w and of w·x are then right on average, and
Σ w·(w - 1)·x² estimates their variance (Horvitz and Thompson 1952), as rows are kept or shed independently.
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
EXCESS: Final = 1  # the size of a component of weights that adds up w·(w - 1)


class RowWeights(Added):
    """How many rows the kept ones stand for, int64[n]: of those with a value, or that ``keep`` holds for.

    Of size 1 it is Σ w·(w - 1), the variance of that number.
    """

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
        return f"{'bound of ' if self.size == EXCESS else 'weighted '}count({self.argument or '*'}){kept}"

    def _term(self, value: Written) -> str:
        """Write what a row adds."""
        weight = value(self.more[0])
        added = f"{weight} * ({weight} - 1L)" if self.size == EXCESS else weight
        present = [f"({value(self.argument)}) IS NOT NULL"] if self.argument is not None else []
        counted = [*present, *([f"({value(self.keep)})"] if self.keep is not None else [])]
        return f"IF({' AND '.join(counted)}, {added}, 0L)" if counted else added

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


class ExcessMoment(WeightedFloatSum):
    """Σ w·(w - 1)·x^size, float64[n]: 0 where every row was kept, whatever the values."""

    __slots__ = ()
    kind: ClassVar = "excess"

    @property
    def worded(self) -> str:
        """Say whose bound needs it."""
        return f"bound of {'avg' if self.size == EXCESS else 'sum'}({self.argument})"

    def _term(self, value: Written) -> str:
        """Write what a row adds."""
        assert self.argument is not None
        weight, x = value(self.more[0]), f"cast({value(self.argument)} as double)"
        return f"IF({weight} > 1L, {' * '.join([f'cast({weight} * ({weight} - 1L) as double)', *[x] * self.size])}, 0D)"


def weighted_sum(argument: str, type_: pa.DataType, weight: str) -> Component:
    """Return the sum of an argument by weights: of doubles a double, of others exact."""
    return (WeightedFloatSum if pa.types.is_floating(type_) else WeightedSum)(argument, type_, (weight,))
