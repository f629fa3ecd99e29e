"""Adds up counts and sums; the exact ones can be subtracted too.

A module that works with components of any kind finds their common names here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import (
    Array,
    Column,
    Component,
    Plane,
    Planes,
    Values,
    Written,
    kept_width,
    pick,
    widened,
)
from penstock.evaluate.components.limbs import add_carries, limbs_of_decimal, limbs_of_halves, times_ten_to_19
from penstock.evaluate.components.reading import doubles, integers, present, whole
from penstock.evaluate.components.row_runs import RowColumn, RowRuns
from penstock.model.arrays import BoolArray, Int64Array

__all__ = [
    "ROWS",
    "Array",
    "BoolArray",
    "Column",
    "Component",
    "Count",
    "ExactSum",
    "FloatSum",
    "Planes",
    "SumPresence",
    "Values",
    "kept_width",
    "pick",
    "widened",
]

INTEGER: Final = Plane(np.dtype(np.int64), 0)
SHORT_DECIMAL: Final = 28  # up to this precision Spark's decimal(p + 10) holds the sum of 10^10 rows
SPLIT_DIGITS: Final = 19  # digits kept in the low part of a longer decimal


class Added(Component):
    """What is combined by adding."""

    __slots__ = ()

    def combine(self, a: Planes, b: Planes) -> Planes:
        """Add planes."""
        with np.errstate(all="ignore"):
            return tuple(x + y for x, y in zip(a, b, strict=True))

    def reduce(self, planes: Planes, starts: Int64Array) -> Planes:
        """Add up each run."""
        with np.errstate(all="ignore"):
            return tuple(np.add.reduceat(plane, starts) for plane in planes)

    @property
    def merges_stretches(self) -> bool:
        """Tell that numpy adds stretches up."""
        return True

    @property
    def scatters(self) -> bool:
        """Tell that numpy adds into places."""
        return True

    def scatter(self, into: Planes, places: Int64Array, planes: Planes) -> None:
        """Add values into places."""
        with np.errstate(all="ignore"):
            for plane, values in zip(into, planes, strict=True):
                np.add.at(plane, places, values)


class Count(Added):
    """How many values there are, int64[n]; without an argument, how many rows."""

    __slots__ = ()
    kind: ClassVar = "count"
    invertible: ClassVar = True

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Say that it is one whole number."""
        return (INTEGER,)

    def lift(self, value: Written, time: str) -> list[str]:
        """Count values."""
        assert self.argument is not None, "rows are counted by every job"
        return [f"count({value(self.argument)})"]

    def row_texts(self, value: Written, time: str) -> list[str]:
        """Tell whether there is a value."""
        return [] if self.argument is None else [f"({value(self.argument)}) IS NOT NULL"]

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Count values."""
        return [pa.array(runs.count(columns[0].flags))]

    def read(self, columns: Sequence[Column]) -> Values:
        """Read one bigint."""
        return integers(columns[0])


ROWS: Final = Count(None, None)


class SumPresence(Added):
    """How many partials of a sum hold a value, int64[n]: the sum of none is NULL. The sum's own column tells."""

    __slots__ = ()
    kind: ClassVar = "some"
    invertible: ClassVar = True

    @property
    def source(self) -> Component:
        """Return the sum."""
        return sum_of(self.argument, self.type)

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Say that it is one whole number."""
        return (INTEGER,)

    def lift(self, value: Written, time: str) -> list[str]:
        """Write nothing: it is read from the sum."""
        return []

    def row_texts(self, value: Written, time: str) -> list[str]:
        """Write nothing: it is read from the sum."""
        return []

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Make nothing: it is read from the sum."""
        return []

    def read(self, columns: Sequence[Column]) -> Values:
        """Read where the first column of a sum holds a value."""
        return present(columns[0])


class Sum(Added):
    """What is added up, in one term of a row or several."""

    __slots__ = ()

    @abstractmethod
    def terms(self, x: str) -> list[str]:
        """Write the terms of a row, each of which is summed in a column of its own."""

    def lift(self, value: Written, time: str) -> list[str]:
        """Sum the terms."""
        assert self.argument is not None
        return [f"sum({term})" for term in self.terms(value(self.argument))]

    def row_texts(self, value: Written, time: str) -> list[str]:
        """Write the terms."""
        assert self.argument is not None
        return self.terms(value(self.argument))

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Sum the terms."""
        return [runs.sums(column) for column in columns]


class FloatSum(Sum):
    """A sum of doubles, float64[n]."""

    __slots__ = ()
    kind: ClassVar = "float"

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Say that it is one double."""
        return (Plane(np.dtype(np.float64), 0.0),)

    def terms(self, x: str) -> list[str]:
        """Add doubles up."""
        return [f"cast({x} as double)"]

    def read(self, columns: Sequence[Column]) -> Values:
        """Read one double."""
        return doubles(columns[0])


class ExactSum(Sum):
    """A sum of integers or decimals as k limbs, int64[n, k]: Σ limb[i]·2^(32·i).

    Only the last limb is signed, and the others may exceed 32 bits. Up to int a partial is one bigint; of bigint it is
    Σ(x & 4294967295) and Σ(x >> 32); of decimal(p ≤ 28, s) one decimal of scale s; of wider decimals lo of scale s and
    hi of scale 0 with Σx = lo + hi·10^(19 - s). No slice can overflow these, so only the window's true sum decides.
    """

    __slots__ = ()
    kind: ClassVar = "exact"
    invertible: ClassVar = True

    @property
    def limbs(self) -> int:
        """Return how many limbs a sum has: 1 up to int, 2 for bigint, 4 for decimals."""
        if pa.types.is_decimal(self.type):
            return 4
        return 2 if pa.types.is_int64(self.type) else 1

    @property
    def decimal(self) -> pa.Decimal128Type:
        """Return the argument's type where it is a decimal."""
        if self.limbs != 4:
            raise TypeError(f"{self} is not over decimals")
        return self.type

    @property
    def _is_split(self) -> bool:
        """Tell a decimal whose sum Spark could not hold before the window's sum is known."""
        return self.limbs == 4 and self.decimal.precision > SHORT_DECIMAL

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Say that it is as many whole numbers as there are limbs."""
        return (INTEGER,) * self.limbs

    def planes_of(self, values: Values) -> Planes:
        """Take limbs apart."""
        return values if isinstance(values, tuple) else tuple(values.T)

    def values_from(self, planes: Planes) -> Values:
        """Put limbs side by side."""
        return np.stack(planes, axis=1)

    @property
    def columns(self) -> tuple[str, ...]:
        """Tell the two parts of a long sum."""
        if self.limbs == 2:
            return (": low part", ": high part, times 2^32")
        if self._is_split:
            return (": low part", f": high part, times 10^{SPLIT_DIGITS - self.decimal.scale}")
        return ("",)

    def terms(self, x: str) -> list[str]:
        """Split into parts whose sums no slice can overflow."""
        if self.limbs == 2:
            return [f"{x} & 4294967295L", f"shiftright({x}, 32)"]
        return _split(self.decimal, x) if self._is_split else [x]

    def read(self, columns: Sequence[Column]) -> Values:
        """Read limbs, the lower ones below 2^32."""
        if self.limbs == 1:
            return integers(columns[0])[:, None]
        if self.limbs == 2:
            return limbs_of_halves(integers(columns[0]), integers(columns[1]))
        low = limbs_of_decimal(whole(columns[0]), self.decimal.scale)
        if not self._is_split:
            return low
        return add_carries(low + times_ten_to_19(limbs_of_decimal(whole(columns[1]), 0)))


def sum_of(argument: str | None, type_: pa.DataType | None) -> Component:
    """Return the sum of an argument: of doubles a double, of others exact."""
    return (FloatSum if pa.types.is_floating(type_) else ExactSum)(argument, type_)


def _split(type_: pa.Decimal128Type, x: str) -> list[str]:
    """Split x = low + high · 10^(19 - scale), both of few enough digits to be summed without overflow."""
    power = SPLIT_DIGITS - type_.scale
    digits = "1" + "0" * power if power >= 0 else "0." + "0" * (-power - 1) + "1"
    unit = f"cast({digits}BD as decimal(38, {max(0, -power)}))"
    low = f"({x} % {unit})"
    high = f"cast(({x} - {low}) / {unit} as decimal(28, 0))"
    return [f"cast({low} as decimal(38, {type_.scale}))", high]
