"""Finds the cell numbers of rows that the driver holds, from the values of the attributes that conditions test.

It looks up in arrays what `spark/job/cell_numbers.py` has Spark look up, row by row, in the same tables.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.components.reading import whole
from penstock.model.arrays import BoolArray, Int64Array
from penstock.share.conditions.axes import FAILED_AT, FALSE_AT, FIRST_AT, NULL_AT, TRUE_AT, Axis
from penstock.share.conditions.cells import CellPart, Cells, Digit

NO_CELL: Final = -(1 << 60)  # added to anything, it is negative


def can_be_found(cells: Cells) -> bool:
    """Tell whether the driver orders all values as Spark does: decimals are left to Spark."""
    return not any(axis.key.kind == "decimal" for axis in cells.axes)


def can_fail(cells: Cells) -> bool:
    """Tell whether computing some value may fail."""
    return any(axis.key.attribute.may_fail for axis in cells.axes)


def positions_on(axis: Axis, column: pa.ChunkedArray, failed: pa.ChunkedArray | None = None) -> Int64Array:
    """Find where on an axis the rows of a column stand; ``failed`` tells of which the value could not be computed."""
    places = _positions(axis, whole(column))
    if failed is None:
        return places
    return np.where(_numbers(whole(failed), pa.uint8(), np.bool_), FAILED_AT, places)


def _positions(axis: Axis, values: pa.Array) -> Int64Array:
    """Find where on an axis values stand."""
    if axis.key.kind == "boolean":
        places = np.where(_numbers(values, pa.uint8(), np.int64), TRUE_AT, FALSE_AT)
    elif axis.key.kind == "string":
        return _string_positions(axis, values)
    elif axis.key.kind == "double":
        places = _searched(np.array(axis.constants, np.float64), _numbers(values, pa.float64(), np.float64))
    else:
        places = _searched(np.array(axis.constants, np.int64), _numbers(values, pa.int64(), np.int64))
    return np.where(_present(values), places, NULL_AT) if values.null_count else places


def cell_numbers(part: CellPart, places: Sequence[Int64Array], rows: int) -> Int64Array:
    """Number the rows of one part by their positions on all axes, negative where no condition takes them."""
    head = np.zeros(rows, np.int64)
    for digit in part.heads:
        head = head + digit.table[places[digit.axis]]
    if part.numbers is not None and not part.digits:
        return part.numbers[head]
    found = part.bases[head] if len(part.bases) > 1 else np.zeros(rows, np.int64)
    for digit in part.digits:
        found = found + _looked_up(digit, places, head)
    if part.numbers is not None:
        return part.numbers[found]
    base = 0 if len(part.bases) > 1 else int(part.bases[0])
    return np.where(part.dead[head], NO_CELL, found + base + part.first)


def _looked_up(digit: Digit, places: Sequence[Int64Array], head: Int64Array) -> Int64Array:
    """Look a digit up by a row's place on an axis, in the stretch of its head."""
    place = places[digit.axis]
    return digit.table[place if digit.starts is None else place + digit.starts[head]]


def _string_positions(axis: Axis, values: pa.Array) -> Int64Array:
    """Find the positions of strings, which Spark compares by their bytes; each distinct one is searched once."""
    encoded = values.cast(pa.binary()).dictionary_encode()
    constants: list[bytes] = axis.constants
    found = np.empty(len(encoded.dictionary) + 1, np.int64)
    for place, value in enumerate(encoded.dictionary.to_pylist()):
        at = bisect_left(constants, value)
        found[place] = FIRST_AT + 2 * at + (at < len(constants) and constants[at] == value)
    found[-1] = NULL_AT
    indices = encoded.indices.cast(pa.int64())
    return np.asarray(found[indices.fill_null(len(found) - 1).to_numpy(zero_copy_only=False)], np.int64)


def _searched(constants: Any, values: Any) -> Int64Array:
    """Find the positions of numbers among constants; NaN is the greatest, and equal to itself."""
    if not len(constants):
        return np.full(len(values), FIRST_AT, np.int64)
    at = np.searchsorted(constants, values)
    met = constants[np.minimum(at, len(constants) - 1)]
    hit = (met == values) | ((met != met) & (values != values))
    return np.asarray(FIRST_AT + 2 * at + hit, np.int64)


def _numbers(values: pa.Array, type_: pa.DataType, dtype: Any) -> Any:
    """Read numbers, with 0 for NULL."""
    filled = values.cast(type_).fill_null(0) if values.null_count else values.cast(type_)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype)


def _present(values: pa.Array) -> BoolArray:
    """Tell which values are not NULL."""
    return np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False), np.bool_)
