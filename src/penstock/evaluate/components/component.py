"""Defines what every kind of component, a mergeable part of aggregates, can do.

A component is one number (or pair, or triple, or state) per slice and group from which aggregates are put together:
avg(x) needs the exact sum of x and its count. Values are kept as *planes*, plain arrays of equal shape, so that one
piece of code combines single values, rows of groups and whole levels of a tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.function import Function

if TYPE_CHECKING:
    from penstock.evaluate.components.row_runs import RowColumn, RowRuns

Int64Array: TypeAlias = npt.NDArray[np.int64]
Array: TypeAlias = npt.NDArray[Any]
Planes: TypeAlias = tuple[Array, ...]
Values: TypeAlias = Array | tuple[Array, ...]
Column: TypeAlias = pa.Array | pa.ChunkedArray
FEW_COLUMNS: Final = 256  # up to so many, room is doubled: to move them often costs more than the room
Written: TypeAlias = Callable[[str], str]  # from an expression of the row to the SQL that reads it


class Plane(NamedTuple):
    """The numpy type of one plane, and the value that changes nothing when combined."""

    dtype: np.dtype[Any]
    identity: Any


@dataclass(frozen=True, slots=True)
class Component(ABC):
    """One mergeable part of aggregates over an argument in canonical text; equal needs have equal components.

    There is a class for each kind; :mod:`penstock.evaluate.components.kinds` lists them. Kinds whose values are
    *states* may have ``more`` arguments, of ``types``, take only rows that ``keep`` holds for, and have a ``size``;
    ``code`` is the user's own.
    """

    kind: ClassVar[str]  # its name in plans and in the state folder
    is_state: ClassVar[bool] = False  # a value is one object, as long as it needs to be, instead of a few numbers
    invertible: ClassVar[bool] = False  # a part can be taken out again exactly
    idempotent: ClassVar[bool] = False  # what is combined twice, in any order, counts once
    ignores_null: ClassVar[bool] = True  # a row whose argument is NULL changes nothing

    argument: str | None
    type: pa.DataType | None
    more: tuple[str, ...] = ()
    types: tuple[pa.DataType, ...] = ()
    keep: str | None = None
    size: int = 0
    code: Function | None = None
    _hash: int = field(init=False, compare=False, repr=False)  # asked for thousands of times a plan

    def __post_init__(self) -> None:
        """Compute the hash once."""
        object.__setattr__(self, "_hash", hash((self.kind, *self._parts)))

    def __hash__(self) -> int:
        """Return the hash."""
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        """Let another process compute its own hash."""
        return type(self), self._parts

    @property
    def _parts(self) -> tuple[object, ...]:
        """Return all that tells one component of a kind from another."""
        return (self.argument, self.type, self.more, self.types, self.keep, self.size, self.code)

    @property
    def arguments(self) -> tuple[str, ...]:
        """List all expressions that are computed of rows."""
        return tuple(a for a in (self.argument, *self.more, self.keep) if a is not None)

    @property
    def source(self) -> Component:
        """Return the component whose partial columns this one is read from."""
        return self

    # -- from rows to values --------------------------------------------------------------------------------------

    @abstractmethod
    def lift(self, value: Written, time: str) -> list[str]:
        """Write the SQL aggregates that make the partial columns of rows; ``time`` is the row's, in microseconds."""

    def row_texts(self, value: Written, time: str) -> list[str] | None:
        """Write the SQL of what :meth:`aggregate` needs of each row; None: only Spark can aggregate it."""
        return None

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Make the partial columns of runs of rows, as :meth:`lift` has Spark make them."""
        raise TypeError(f"{self} cannot be made of rows")

    @property
    def columns(self) -> tuple[str, ...]:
        """Say what each partial column holds, after the component's name; nothing where there is only one."""
        return ("",)

    @abstractmethod
    def read(self, columns: Sequence[Column]) -> Values:
        """Read values from the partial columns as Spark ships them; NULL means that nothing was there."""

    # -- algebra --------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def planes(self) -> tuple[Plane, ...]:
        """Say what each plane is."""

    @abstractmethod
    def combine(self, a: Planes, b: Planes) -> Planes:
        """Combine planes of equal shape element by element."""

    def reduce(self, planes: Planes, starts: Int64Array) -> Planes:
        """Combine each run of rows, given where runs begin, into one row: neighbours, until one is left of each."""
        runs = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(planes[0])))
        while len(runs) > len(starts):
            place = np.arange(len(runs)) - np.searchsorted(runs, runs)
            left = np.flatnonzero(place % 2 == 0)
            paired = np.flatnonzero(np.append(runs[1:] == runs[:-1], False)[left])
            both = self.combine(_rows(planes, left[paired]), _rows(planes, left[paired] + 1))
            planes = _rows(planes, left)
            for plane, value in zip(planes, both, strict=True):
                plane[paired] = value
            runs = runs[left]
        return planes

    @property
    def merges_stretches(self) -> bool:
        """Tell whether :meth:`stretches` takes a few steps, however many rows there are."""
        return False

    def stretches(self, planes: Planes, lo: Int64Array, hi: Int64Array) -> Planes:
        """Combine rows lo … hi - 1 of each stretch, none of which is empty, into one row."""
        lengths = hi - lo
        starts = np.cumsum(lengths) - lengths
        rows = np.arange(int(lengths.sum())) + np.repeat(lo - starts, lengths)
        return self.reduce(_rows(planes, rows), starts)

    @property
    def scatters(self) -> bool:
        """Tell whether values in any order, of repeated places too, can be combined into an array by numpy alone."""
        return False

    def scatter(self, into: Planes, places: Int64Array, planes: Planes) -> None:
        """Combine values into places of flat arrays."""
        raise TypeError(f"{self} cannot be scattered")

    def identities(self, shape: int | tuple[int, ...]) -> Planes:
        """Return planes of a shape that hold nothing yet."""
        return tuple(_filled(shape, dtype, value) for dtype, value in self.planes)

    def planes_of(self, values: Values) -> Planes:
        """Split values into their planes."""
        return values if isinstance(values, tuple) else (values,)

    def values_from(self, planes: Planes) -> Values:
        """Put planes together as values."""
        return planes if len(planes) > 1 else planes[0]

    @property
    def _listed(self) -> tuple[str, ...]:
        """List what stands in parentheses."""
        return (self.argument or "*", *self.more)

    def __str__(self) -> str:
        """Print the component as a call: ``count(*)``, ``exact(`price`)``."""
        kept = f" where {self.keep}" if self.keep else ""
        return f"{self.kind}({', '.join(self._listed)}{f', {self.size}' if self.size else ''}){kept}"

    @property
    def worded(self) -> str:
        """Say to people what is stored."""
        return str(self)


def _filled(shape: int | tuple[int, ...], dtype: np.dtype[Any], value: Any) -> Array:
    """Return an array of one value; room for zeros takes no memory until something is written there."""
    return np.full(shape, value, dtype) if value or dtype.hasobject else np.zeros(shape, dtype)


def _rows(planes: Planes, rows: npt.NDArray[np.intp]) -> Planes:
    """Copy some rows of all planes."""
    return tuple(plane[rows] for plane in planes)


def pick(values: Values, rows: npt.NDArray[np.intp] | Int64Array | npt.NDArray[np.bool_]) -> Values:
    """Take the values of some rows."""
    return tuple(plane[rows] for plane in values) if isinstance(values, tuple) else values[rows]


def widened(have: int, need: int) -> int:
    """Return a number of columns that holds those needed, with few to spare: each takes memory in every row."""
    if need <= have:
        return have
    return max(need, 2 * have if have < FEW_COLUMNS else have * 5 // 4)


def kept_width(have: int, need: int) -> int:
    """Return how many columns there is room for once only some are needed: as before if most are, as more may come."""
    return have if 4 * need >= 3 * have else need
