"""Reads partial columns into numpy arrays and combines their values: counts, sums, extremes, moments.

A component is one number (or pair, or triple, or state) per slice and group from which aggregates are put together:
avg(x) needs the exact sum of x and its count. Values are kept as *planes*, plain arrays of equal shape, so that one
piece of code combines single values, rows of groups and whole levels of a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.evaluate.components.component import (
    ROWS,
    SHORT_DECIMAL,
    Array,
    BoolArray,
    Column,
    Component,
    Int64Array,
    Planes,
    Values,
)
from penstock.evaluate.components.limbs import add_carries, limbs_of_decimal, limbs_of_halves, times_ten_to_19
from penstock.evaluate.components.reading import comparable, doubles, integers, ordered_type, present, whole
from penstock.evaluate.components.states import combine_states, read_states

__all__ = [
    "ROWS",
    "Array",
    "BoolArray",
    "Column",
    "Component",
    "Int64Array",
    "Planes",
    "Values",
    "can_scatter",
    "column_count",
    "combine",
    "combine_planes",
    "identities",
    "identity_of",
    "ordering_of",
    "pick",
    "plane_types",
    "planes_of",
    "scatter",
    "values_from",
    "values_of",
    "widened",
]


def identity_of(component: Component) -> tuple[Any, ...]:
    """Return for each plane the value that changes nothing when combined; None for a state."""
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
    return (None,)


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
            return (ordered_type(component.type), np.dtype(np.bool_))
        case "moments":
            return (np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.float64))
    return (np.dtype(object),)


def identities(component: Component, shape: int | tuple[int, ...]) -> Planes:
    """Return planes of a shape that hold nothing yet."""
    kinds = zip(plane_types(component), identity_of(component), strict=True)
    return tuple(_filled(shape, dtype, value) for dtype, value in kinds)


def _filled(shape: int | tuple[int, ...], dtype: np.dtype[Any], value: Any) -> Array:
    """Return an array of one value; room for zeros takes no memory until something is written there."""
    return np.full(shape, value, dtype) if value or dtype.hasobject else np.zeros(shape, dtype)


def widened(have: int, need: int) -> int:
    """Return a number of columns that holds those needed, with few to spare: each takes memory in every row."""
    return have if need <= have else max(need, have * 5 // 4)


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
    return (combine_states(component, a[0], b[0]),)


def can_scatter(component: Component) -> bool:
    """Tell whether values in any order, of repeated places too, can be combined into an array by numpy alone."""
    if component.kind in ("min", "max"):
        return not plane_types(component)[0].hasobject
    return component.kind in ("count", "some", "exact", "float")


def scatter(component: Component, into: Planes, places: Int64Array, planes: Planes) -> None:
    """Combine values into places of flat arrays."""
    with np.errstate(all="ignore"):
        if component.kind in ("min", "max"):
            ordering_of(component).at(into[0], places, planes[0])
            into[1][places[planes[1]]] = True
            return
        for plane, values in zip(into, planes, strict=True):
            np.add.at(plane, places, values)


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
    count, avg, m2. A state: one column, as its own module reads it.
    """
    match component.kind:
        case "count":
            return integers(columns[0])
        case "some":
            return present(columns[0])
        case "exact":
            return _exact(component, columns)
        case "float":
            return doubles(columns[0])
        case "min" | "max":
            return comparable(component.type, columns[0], identity_of(component)[0])
        case "moments":
            return (integers(columns[0]), doubles(columns[1]), doubles(columns[2]))
    return read_states(component, columns[0])


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
        return integers(columns[0])[:, None]
    if component.limbs == 2:
        return limbs_of_halves(integers(columns[0]), integers(columns[1]))
    low = limbs_of_decimal(whole(columns[0]), component.decimal.scale)
    if column_count(component) == 1:
        return low
    return add_carries(low + times_ten_to_19(limbs_of_decimal(whole(columns[1]), 0)))


def _extreme(component: Component) -> Any:
    """Return the value that never wins: for doubles NaN among minima and -inf among maxima."""
    dtype, lowest = ordered_type(component.type), component.kind == "max"
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
