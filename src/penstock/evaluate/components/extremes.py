"""The least and greatest value of an argument, as Spark orders them (NaN is greatest), and the bits of integers."""

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

WIDE: Final = 64  # values of a row from which on windows are sooner gone through one by one


class Folded(Component):
    """A pair (values, valid) of what one operation leaves of all values: the best of them, or their bits."""

    __slots__ = ()
    idempotent: ClassVar = True

    @property
    @abstractmethod
    def operation(self) -> np.ufunc:
        """Return the function that makes one value of two."""

    @property
    @abstractmethod
    def _never(self) -> Any:
        """Return the value that changes no other."""

    @property
    def _dtype(self) -> np.dtype[Any]:
        """Return the numpy type in which values are compared."""
        return ordered_type(self.type)

    @property
    def planes(self) -> tuple[Plane, ...]:
        """Say that a pair is a value and whether there is one."""
        return (Plane(self._dtype, None if self._dtype.hasobject else self._never), Plane(np.dtype(np.bool_), False))

    def lift(self, value: Written, time: str) -> list[str]:
        """Let Spark do the same."""
        assert self.argument is not None
        return [f"{self.kind}({value(self.argument)})"]

    def row_texts(self, value: Written, time: str) -> list[str] | None:
        """Write the value itself."""
        assert self.argument is not None
        return None if pa.types.is_nested(self.type) else [value(self.argument)]

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Make one value of each run."""
        (column,) = columns
        held = runs.held(column)
        if column.has_numbers:
            numbers, never = column.numbers, self.planes[0].identity
            if column.valid is not None:
                numbers = np.where(column.valid, numbers, never)
            return [typed(runs.best(numbers, self.operation), held, column.array.type)]
        wanted = np.ones(len(column.array), np.bool_) if column.valid is None else column.valid
        rows = picked_rows(runs, wanted, column.ranks, last=self.operation is np.maximum)
        return [column.array.take(pa.array(rows))]

    def read(self, columns: Sequence[Column]) -> Values:
        """Read one column of the argument's type."""
        return comparable(self.type, columns[0], self.planes[0].identity)

    def combine(self, a: Planes, b: Planes) -> Planes:
        """Make one of each two values."""
        if a[0].dtype.hasobject:
            return _pick_objects(self.operation, a, b)
        return (self.operation(a[0], b[0]), a[1] | b[1])

    def reduce(self, planes: Planes, starts: Int64Array) -> Planes:
        """Make one value of each run."""
        if planes[0].dtype.hasobject:
            return super().reduce(planes, starts)
        with np.errstate(all="ignore"):
            return (self.operation.reduceat(planes[0], starts), np.logical_or.reduceat(planes[1], starts))

    @property
    def merges_stretches(self) -> bool:
        """Tell whether values are numbers."""
        return self.scatters

    def stretches(self, planes: Planes, lo: Int64Array, hi: Int64Array) -> Planes:
        """Pick the best of each stretch: of wide rows one by one, of others in one step."""
        values, present = planes
        with np.errstate(all="ignore"):
            if values.size >= WIDE * len(values):
                pairs = list(zip(lo.tolist(), hi.tolist(), strict=True))
                best = np.stack([self.operation.reduce(values[a:b], axis=0) for a, b in pairs])
                return (best, np.stack([present[a:b].any(axis=0) for a, b in pairs]))
            edges = np.stack([lo, hi], axis=1).reshape(-1)  # between two windows, what nobody reads is combined
            best = self.operation.reduceat(values, edges)[::2]
            return (best, np.logical_or.reduceat(present, edges)[::2])

    @property
    def scatters(self) -> bool:
        """Tell whether values are numbers."""
        return not self._dtype.hasobject

    def scatter(self, into: Planes, places: Int64Array, planes: Planes) -> None:
        """Put values to those in places."""
        with np.errstate(all="ignore"):
            self.operation.at(into[0], places, planes[0])
        into[1][places[planes[1]]] = True


class Least(Folded):
    """The least value; NaN only if there is no other."""

    __slots__ = ()
    kind: ClassVar = "min"

    @property
    def operation(self) -> np.ufunc:
        """Return the lesser of two; fmin takes NaN only if both are."""
        return np.fmin if self._dtype == np.float64 else np.minimum

    @property
    def _never(self) -> Any:
        """Return the greatest value."""
        return np.nan if self._dtype == np.float64 else np.iinfo(np.int64).max


class Greatest(Folded):
    """The greatest value."""

    __slots__ = ()
    kind: ClassVar = "max"

    @property
    def operation(self) -> np.ufunc:
        """Return the greater of two, which passes NaN on."""
        return np.maximum

    @property
    def _never(self) -> Any:
        """Return the least value."""
        return -np.inf if self._dtype == np.float64 else np.iinfo(np.int64).min


class Bits(Folded):
    """Bits of integers, combined place by place."""

    __slots__ = ()


class BitAnd(Bits):
    """The bits that all integers have."""

    __slots__ = ()
    kind: ClassVar = "bit_and"

    @property
    def operation(self) -> np.ufunc:
        """Keep the bits of both."""
        return np.bitwise_and

    @property
    def _never(self) -> Any:
        """Return all bits."""
        return -1


class BitOr(Bits):
    """The bits that some integer has."""

    __slots__ = ()
    kind: ClassVar = "bit_or"

    @property
    def operation(self) -> np.ufunc:
        """Take the bits of either."""
        return np.bitwise_or

    @property
    def _never(self) -> Any:
        """Return no bit."""
        return 0


class BitXor(Bits):
    """The bits that an odd number of integers have."""

    __slots__ = ()
    kind: ClassVar = "bit_xor"
    idempotent: ClassVar = False

    @property
    def operation(self) -> np.ufunc:
        """Take the bits that only one has."""
        return np.bitwise_xor

    @property
    def _never(self) -> Any:
        """Return no bit."""
        return 0


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
