"""The least and greatest value of an argument, as Spark orders them: NaN is greatest."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Column, Component, Plane, Planes, Values, Written
from penstock.evaluate.components.reading import comparable, ordered_type
from penstock.evaluate.components.row_runs import RowColumn, RowRuns, picked_rows, typed
from penstock.model.arrays import Int64Array


class Extreme(Component):
    """A pair (values, valid) of the best value so far."""

    __slots__ = ()
    idempotent: ClassVar = True

    @property
    @abstractmethod
    def ordering(self) -> np.ufunc:
        """Return the function that picks the better of two values."""

    @property
    @abstractmethod
    def _never(self) -> Any:
        """Return the value that never wins."""

    @property
    def _dtype(self) -> np.dtype[Any]:
        """Return the numpy type in which values are compared."""
        return ordered_type(self.type)

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Say that a pair is a value and whether there is one."""
        return (Plane(self._dtype, None if self._dtype.hasobject else self._never), Plane(np.dtype(np.bool_), False))

    def lift(self, value: Written, time: str) -> list[str]:
        """Let Spark pick the best value."""
        assert self.argument is not None
        return [f"{self.kind}({value(self.argument)})"]

    def row_texts(self, value: Written, time: str) -> list[str] | None:
        """Write the value itself."""
        assert self.argument is not None
        return None if pa.types.is_nested(self.type) else [value(self.argument)]

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Pick the best value of each run."""
        (column,) = columns
        held = runs.held(column)
        if column.has_numbers:
            numbers, never = column.numbers, self.planes[0].identity
            if column.valid is not None:
                numbers = np.where(column.valid, numbers, never)
            return [typed(runs.best(numbers, self.ordering), held, column.array.type)]
        wanted = np.ones(len(column.array), np.bool_) if column.valid is None else column.valid
        rows = picked_rows(runs, wanted, column.ranks, last=self.ordering is np.maximum)
        return [column.array.take(pa.array(rows))]

    def read(self, columns: Sequence[Column]) -> Values:
        """Read one column of the argument's type."""
        return comparable(self.type, columns[0], self.planes[0].identity)

    def combine(self, a: Planes, b: Planes) -> Planes:
        """Pick the better values."""
        if a[0].dtype.hasobject:
            return _pick_objects(self.ordering, a, b)
        return (self.ordering(a[0], b[0]), a[1] | b[1])

    def reduce(self, planes: Planes, starts: Int64Array) -> Planes:
        """Pick the best of each run."""
        if planes[0].dtype.hasobject:
            return super().reduce(planes, starts)
        with np.errstate(all="ignore"):
            return (self.ordering.reduceat(planes[0], starts), np.logical_or.reduceat(planes[1], starts))

    @property
    def scatters(self) -> bool:
        """Tell whether values are numbers."""
        return not self._dtype.hasobject

    def scatter(self, into: Planes, places: Int64Array, planes: Planes) -> None:
        """Pick the better values in places."""
        with np.errstate(all="ignore"):
            self.ordering.at(into[0], places, planes[0])
        into[1][places[planes[1]]] = True


class Least(Extreme):
    """The least value; NaN only if there is no other."""

    __slots__ = ()
    kind: ClassVar = "min"

    @property
    def ordering(self) -> np.ufunc:
        """Return the lesser of two; fmin takes NaN only if both are."""
        return np.fmin if self._dtype == np.float64 else np.minimum

    @property
    def _never(self) -> Any:
        """Return the greatest value."""
        return np.nan if self._dtype == np.float64 else np.iinfo(np.int64).max


class Greatest(Extreme):
    """The greatest value."""

    __slots__ = ()
    kind: ClassVar = "max"

    @property
    def ordering(self) -> np.ufunc:
        """Return the greater of two, which passes NaN on."""
        return np.maximum

    @property
    def _never(self) -> Any:
        """Return the least value."""
        return -np.inf if self._dtype == np.float64 else np.iinfo(np.int64).min


class FirstTime(Least):
    """The time of the first row, in microseconds: where a session begins."""

    __slots__ = ()
    kind: ClassVar = "first_time"

    def lift(self, value: Written, time: str) -> list[str]:
        """Let Spark pick the first time."""
        return [f"min({time})"]

    def row_texts(self, value: Written, time: str) -> list[str] | None:
        """Write the time itself."""
        return [time]


class LastTime(Greatest):
    """The time of the last row, in microseconds: a gap after it, a session ends."""

    __slots__ = ()
    kind: ClassVar = "last_time"

    def lift(self, value: Written, time: str) -> list[str]:
        """Let Spark pick the last time."""
        return [f"max({time})"]

    def row_texts(self, value: Written, time: str) -> list[str] | None:
        """Write the time itself."""
        return [time]


FIRST_OF_SESSION: Final = FirstTime(None, pa.int64())
LAST_OF_SESSION: Final = LastTime(None, pa.int64())


def _pick_objects(better: np.ufunc, a: Planes, b: Planes) -> Planes:
    """Pick among objects, comparing only where both are there: None has no order."""
    both = a[1] & b[1]
    values = np.where(a[1], a[0], b[0])
    if both.any():
        values[both] = better(a[0][both], b[0][both])
    return (values, a[1] | b[1])
