"""Converts partial columns from Arrow into plain numpy arrays, with NULLs replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.components.component import Array, Column
from penstock.evaluate.expressions.raw_times import raw_values
from penstock.model.arrays import BoolArray, Int64Array


def comparable(type_: pa.DataType, column: Column, identity: Any) -> tuple[Array, BoolArray]:
    """Read values of a type so that they compare as Spark compares them; where NULL stands, the identity."""
    array = whole(column)
    valid = np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False))
    dtype = ordered_type(type_)
    if dtype.hasobject:
        if pa.types.is_string(array.type):  # compared as bytes, as Spark does; they need not be UTF-8
            array = array.cast(pa.binary())
        if pa.types.is_binary(array.type):
            return (_distinct_objects(array), valid)
        values: Array = np.empty(len(array), object)
        values[:] = raw_values(array)
        return (values, valid)
    if pa.types.is_floating(array.type):
        return (np.asarray(array.cast(pa.float64()).fill_null(identity).to_numpy(zero_copy_only=False)), valid)
    if pa.types.is_timestamp(array.type):
        array = array.cast(type_)
    elif pa.types.is_boolean(array.type) or pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    return (np.asarray(array.cast(pa.int64()).fill_null(identity).to_numpy(zero_copy_only=False)), valid)


def _distinct_objects(array: pa.Array) -> Array:
    """Read bytes, of equal ones one object: most come more than once, and an object's hash is computed once."""
    encoded = array.dictionary_encode()
    listed = np.array([*encoded.dictionary.to_pylist(), None], object)
    places = encoded.indices.fill_null(len(listed) - 1).to_numpy(zero_copy_only=False)
    return np.asarray(listed[places], object)


def integers(column: Column) -> Int64Array:
    """Read bigints, 0 for NULL."""
    filled = whole(column).cast(pa.int64()).fill_null(0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def present(column: Column) -> Int64Array:
    """Read 1 where there is a value, 0 for NULL."""
    return np.asarray(pc.is_valid(whole(column)).to_numpy(zero_copy_only=False), np.int64)


def doubles(column: Column) -> Array:
    """Read doubles, 0 for NULL."""
    filled = whole(column).cast(pa.float64()).fill_null(0.0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.float64)


def whole(column: Column) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def ordered_type(type_: pa.DataType | None) -> np.dtype[Any]:
    """Return the numpy type in which values of an Arrow type are compared."""
    if pa.types.is_floating(type_):
        return np.dtype(np.float64)
    whole = pa.types.is_integer(type_) or pa.types.is_boolean(type_)
    if whole or pa.types.is_date32(type_) or pa.types.is_timestamp(type_):
        return np.dtype(np.int64)
    return np.dtype(object)
