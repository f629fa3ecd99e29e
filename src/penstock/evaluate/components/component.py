"""Defines a component, one mergeable part of aggregates, so that equal needs are equal components."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.model.function import Function

Kind = Literal[
    "count", "some", "exact", "float", "min", "max", "moments",
    "frequencies", "weights", "arg_min", "arg_max", "first", "last", "hll", "theta", "kll", "items", "user",
]  # fmt: skip
Int64Array: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[Any]
Planes: TypeAlias = tuple[Array, ...]
Values: TypeAlias = Array | tuple[Array, ...]
Column: TypeAlias = pa.Array | pa.ChunkedArray

STATES: Final = frozenset(get_args(Kind)[7:])
ROW_ORDERED: Final = ("first", "last")  # ``more`` are the columns of the row
SMALL_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32())
SHORT_DECIMAL: Final = 28  # up to this precision Spark's decimal(p + 10) holds the sum of 10^10 rows


@dataclass(frozen=True, slots=True)
class Component:
    """One mergeable part of aggregates over an argument in canonical text; ``count`` without one counts rows.

    Values by kind: ``count`` int64[n]; ``some`` int64[n], how many partials of a sum hold a value; ``exact``
    int64[n, k], a sum as k limbs, Σ limb[i]·2^(32·i), of which only the last is signed and the others may exceed 32
    bits; ``float`` float64[n]; ``min`` and ``max`` a pair (values, valid); ``moments`` a triple (n, mean, m2) with m2
    the sum of squared distances from the mean. All others are *states*, Python objects or None, with the algebra of
    :mod:`penstock.evaluate.states`; they may have ``more`` arguments, of ``types``, take only rows that ``keep`` holds
    for, and have a ``size``; ``code`` is the user's own.
    """

    kind: Kind
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
        object.__setattr__(self, "_hash", hash(self._parts))

    def __hash__(self) -> int:
        """Return the hash."""
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        """Let another process compute its own hash."""
        return Component, self._parts

    @property
    def _parts(self) -> tuple[object, ...]:
        """Return all that tells one component from another."""
        named = self.kind, self.argument, self.type, self.more, self.types
        return (*named, self.keep, self.size, self.code)

    @property
    def arguments(self) -> tuple[str, ...]:
        """List all expressions that are computed of rows."""
        return tuple(a for a in (self.argument, *self.more, self.keep) if a is not None)

    @property
    def is_state(self) -> bool:
        """Tell whether a value is one object, as long as it needs to be, instead of a few numbers."""
        return self.kind in STATES

    @property
    def packed(self) -> bool:
        """Tell whether the two values that a table counts together fit one bigint."""
        if self.kind != "frequencies" or len(self.types) != 1:
            return False
        return all(t in SMALL_INTEGERS for t in (self.type, *self.types))

    @property
    def invertible(self) -> bool:
        """Tell whether a part can be taken out again exactly."""
        return self.kind in ("count", "some", "exact")

    @property
    def source(self) -> Component:
        """Return the component whose partial columns this one is read from: whether there is a sum, the sum tells."""
        if self.kind != "some":
            return self
        return Component("float" if pa.types.is_floating(self.type) else "exact", self.argument, self.type)

    @property
    def limbs(self) -> int:
        """Return how many limbs an exact sum has: 1 up to int, 2 for bigint, 4 for decimals."""
        if pa.types.is_decimal(self.type):
            return 4
        return 2 if pa.types.is_int64(self.type) else 1

    @property
    def decimal(self) -> pa.Decimal128Type:
        """Return the argument's type where it is a decimal."""
        if self.limbs != 4:
            raise TypeError(f"{self} is not over decimals")
        return self.type

    def __str__(self) -> str:
        """Print the component as a call: ``count(*)``, ``exact(`price`)``."""
        if self.code is not None:
            return f"{self.code.name}({', '.join(self.arguments)})"
        listed = [self.argument or "*", *(self.more if self.kind not in ROW_ORDERED else ())]
        kept = f" where {self.keep}" if self.keep else ""
        return f"{self.kind}({', '.join(listed)}{f', {self.size}' if self.size else ''}){kept}"


ROWS: Final = Component("count", None, None)
