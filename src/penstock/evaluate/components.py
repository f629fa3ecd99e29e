"""Partial columns come in from Arrow; mergeable values in numpy come out, with the algebra to combine them.

A component is one number (or pair, or triple) per slice and group from which aggregates are put together: avg(x) needs
the exact sum of x and its count. Values are kept as *planes*, plain arrays of equal shape, so that one piece of code
combines single values, rows of groups and whole levels of a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.limbs import add_carries, limbs_of_decimal, limbs_of_halves, times_ten_to_19

Kind = Literal["count", "some", "exact", "float", "min", "max", "moments"]
Int64Array: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[Any]
Planes: TypeAlias = tuple[Array, ...]
Values: TypeAlias = Array | tuple[Array, ...]
Column: TypeAlias = pa.Array | pa.ChunkedArray

SHORT_DECIMAL: Final = 28  # up to this precision Spark's decimal(p + 10) holds the sum of 10^10 rows


@dataclass(frozen=True, slots=True)
class Component:
    """One mergeable part of aggregates over an argument in canonical text; ``count`` without one counts rows.

    Values by kind: ``count`` int64[n]; ``some`` int64[n], how many partials of a sum hold a value; ``exact``
    int64[n, k], a sum as k limbs, Σ limb[i]·2^(32·i), of which only the last is signed and the others may exceed 32
    bits; ``float`` float64[n]; ``min`` and ``max`` a pair (values, valid); ``moments`` a triple (n, mean, m2) with m2
    the sum of squared distances from the mean.
    """

    kind: Kind
    argument: str | None
    type: pa.DataType | None
    _hash: int = field(init=False, compare=False, repr=False)  # asked for thousands of times a plan

    def __post_init__(self) -> None:
        """Compute the hash once."""
        object.__setattr__(self, "_hash", hash((self.kind, self.argument, self.type)))

    def __hash__(self) -> int:
        """Return the hash."""
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        """Let another process compute its own hash."""
        return Component, (self.kind, self.argument, self.type)

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
        return f"{self.kind}({self.argument or '*'})"


ROWS: Final = Component("count", None, None)


def identity_of(component: Component) -> tuple[Any, ...]:
    """Return for each plane the value that changes nothing when combined."""
    match component.kind:
        case "count" | "some":
            return (0,)
        case "exact":
            return (0,) * component.limbs
        case "float":
            return (0.0,)
        case "min" | "max":
            return (_extreme(component), False)
        case "moments":
            return (0, 0.0, 0.0)
    assert_never(component.kind)


def plane_types(component: Component) -> tuple[np.dtype[Any], ...]:
    """Return the numpy type of each plane."""
    match component.kind:
        case "count" | "some":
            return (np.dtype(np.int64),)
        case "exact":
            return (np.dtype(np.int64),) * component.limbs
        case "float":
            return (np.dtype(np.float64),)
        case "min" | "max":
            return (_ordered_type(component.type), np.dtype(np.bool_))
        case "moments":
            return (np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.float64))
    assert_never(component.kind)


def identities(component: Component, shape: int | tuple[int, ...]) -> Planes:
    """Return planes of a shape that hold nothing yet."""
    filled = zip(plane_types(component), identity_of(component), strict=True)
    return tuple(np.full(shape, value, dtype) for dtype, value in filled)


def planes_of(component: Component, values: Values) -> Planes:
    """Split values into their planes."""
    if isinstance(values, tuple):
        return values
    return tuple(values.T) if component.kind == "exact" else (values,)


def values_from(component: Component, planes: Planes) -> Values:
    """Put planes together as values."""
    if component.kind == "exact":
        return np.stack(planes, axis=1)
    return planes if len(planes) > 1 else planes[0]


def pick(values: Values, rows: Int64Array | npt.NDArray[np.bool_]) -> Values:
    """Take the values of some rows."""
    return tuple(plane[rows] for plane in values) if isinstance(values, tuple) else values[rows]


def combine(component: Component, a: Values, b: Values) -> Values:
    """Combine two columns of values element by element."""
    return values_from(component, combine_planes(component, planes_of(component, a), planes_of(component, b)))


def combine_planes(component: Component, a: Planes, b: Planes) -> Planes:
    """Combine planes of equal shape element by element."""
    match component.kind:
        case "count" | "some" | "exact":
            return tuple(x + y for x, y in zip(a, b, strict=True))
        case "float":
            with np.errstate(all="ignore"):
                return (a[0] + b[0],)
        case "min" | "max":
            if a[0].dtype.hasobject:
                return _pick_objects(ordering_of(component), a, b)
            return (ordering_of(component)(a[0], b[0]), a[1] | b[1])
        case "moments":
            return _merge_moments(a, b)
    assert_never(component.kind)


def ordering_of(component: Component) -> np.ufunc:
    """Return the function that picks the lesser or greater of two values as Spark orders them, NaN greatest."""
    if component.kind == "max":
        return np.maximum  # passes NaN on
    return np.fmin if plane_types(component)[0] == np.float64 else np.minimum  # fmin takes NaN only if both are


def values_of(component: Component, columns: Sequence[Column]) -> Values:
    """Read values from a component's partial columns as Spark ships them; NULL means nothing was there.

    ``count``: one bigint. ``exact`` up to int: one bigint; of bigint: Σ(x & 4294967295) and Σ(x >> 32); of
    decimal(p ≤ 28, s): one decimal of scale s; of wider decimals: lo of scale s and hi of scale 0 with
    Σx = lo + hi·10^(19 - s). ``float``: one double. ``min``, ``max``: one column of the argument's type. ``moments``:
    count, avg, m2.
    """
    match component.kind:
        case "count":
            return _integers(columns[0])
        case "some":
            return _present(columns[0])
        case "exact":
            return _exact(component, columns)
        case "float":
            return _doubles(columns[0])
        case "min" | "max":
            return _ordered(component, columns[0])
        case "moments":
            return (_integers(columns[0]), _doubles(columns[1]), _doubles(columns[2]))
    assert_never(component.kind)


def column_count(component: Component) -> int:
    """Return how many partial columns `values_of` reads."""
    if component.kind == "moments":
        return 3
    if component.kind != "exact":
        return 1
    long_decimal = component.limbs == 4 and component.decimal.precision > SHORT_DECIMAL
    return 2 if component.limbs == 2 or long_decimal else 1


def _exact(component: Component, columns: Sequence[Column]) -> Values:
    """Read an exact sum as limbs, the lower ones below 2^32."""
    if component.limbs == 1:
        return _integers(columns[0])[:, None]
    if component.limbs == 2:
        return limbs_of_halves(_integers(columns[0]), _integers(columns[1]))
    low = limbs_of_decimal(_whole(columns[0]), component.decimal.scale)
    if column_count(component) == 1:
        return low
    return add_carries(low + times_ten_to_19(limbs_of_decimal(_whole(columns[1]), 0)))


def _ordered(component: Component, column: Column) -> Values:
    """Read comparable values; where NULL stands, the identity."""
    array = _whole(column)
    valid = np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False))
    dtype, identity = plane_types(component)[0], identity_of(component)[0]
    if dtype.hasobject:
        if pa.types.is_string(array.type):  # compared as bytes, as Spark does; they need not be UTF-8
            array = array.cast(pa.binary())
        values: Array = np.empty(len(array), object)
        values[:] = array.to_pylist()
        return (values, valid)
    if pa.types.is_floating(array.type):
        return (np.asarray(array.cast(pa.float64()).fill_null(identity).to_numpy(zero_copy_only=False)), valid)
    if pa.types.is_timestamp(array.type):
        array = array.cast(component.type)
    elif pa.types.is_boolean(array.type) or pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    return (np.asarray(array.cast(pa.int64()).fill_null(identity).to_numpy(zero_copy_only=False)), valid)


def _integers(column: Column) -> Int64Array:
    """Read bigints, 0 for NULL."""
    filled = _whole(column).cast(pa.int64()).fill_null(0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def _present(column: Column) -> Int64Array:
    """Read 1 where there is a value, 0 for NULL."""
    return np.asarray(pc.is_valid(_whole(column)).to_numpy(zero_copy_only=False), np.int64)


def _doubles(column: Column) -> Array:
    """Read doubles, 0 for NULL."""
    filled = _whole(column).cast(pa.float64()).fill_null(0.0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.float64)


def _whole(column: Column) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _ordered_type(type_: pa.DataType | None) -> np.dtype[Any]:
    """Return the numpy type in which values of an Arrow type are compared."""
    if pa.types.is_floating(type_):
        return np.dtype(np.float64)
    whole = pa.types.is_integer(type_) or pa.types.is_boolean(type_)
    if whole or pa.types.is_date32(type_) or pa.types.is_timestamp(type_):
        return np.dtype(np.int64)
    return np.dtype(object)


def _extreme(component: Component) -> Any:
    """Return the value that never wins: for doubles NaN among minima and -inf among maxima."""
    dtype, lowest = _ordered_type(component.type), component.kind == "max"
    if dtype.hasobject:
        return None
    if dtype == np.float64:
        return -np.inf if lowest else np.nan
    return np.iinfo(np.int64).min if lowest else np.iinfo(np.int64).max


def _pick_objects(pick: np.ufunc, a: Planes, b: Planes) -> Planes:
    """Pick among objects, comparing only where both are there: None has no order."""
    both = a[1] & b[1]
    values = np.where(a[1], a[0], b[0])
    if both.any():
        values[both] = pick(a[0][both], b[0][both])
    return (values, a[1] | b[1])


def _merge_moments(a: Planes, b: Planes) -> Planes:
    """Merge counts, means and squared distances (Chan, Golub and LeVeque 1979)."""
    n = a[0] + b[0]
    with np.errstate(all="ignore"):
        delta = b[1] - a[1]
        share = b[0] / np.maximum(n, 1)
        mean = a[1] + delta * share
        m2 = a[2] + b[2] + delta * delta * (a[0] * share)
    # An empty side must not touch the other: 0 · inf² would be NaN.
    for empty, other in ((a[0] == 0, b), (b[0] == 0, a)):
        mean, m2 = np.where(empty, other[1], mean), np.where(empty, other[2], m2)
    return (n, mean, m2)
