"""min and max, bit_and, bit_or and bit_xor, in the argument's own type."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.extremes import BitAnd, BitOr, Bits, BitXor, Greatest, Least
from penstock.evaluate.functions.bound import (
    AggregateFunction,
    BoundAggregate,
    Lowered,
    ValuesOf,
    is_ordered,
    same_type,
)


def lower_folded(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the least or greatest value, or bits, in their own type."""
    pair = values[bound.components[0]]
    best, valid = np.asarray(pair[0]), np.asarray(pair[1])
    if pa.types.is_string(bound.type):  # Spark does not check that strings are UTF-8, and neither do we
        return Lowered(pa.array(best, pa.binary(), mask=~valid).view(pa.string()), None)
    if best.dtype.hasobject:
        return Lowered(pa.array(best, bound.type, mask=~valid), None)
    best = np.where(valid, best, best.dtype.type(0))
    if pa.types.is_boolean(bound.type):
        return Lowered(pa.array(best.astype(bool), mask=~valid), None)
    if pa.types.is_date32(bound.type):
        best = best.astype(np.int32)
    return Lowered(pa.array(best, mask=~valid).cast(bound.type), None)


MIN: Final = AggregateFunction(
    (is_ordered,), lambda aggregate, types: (Least(aggregate.arguments[0], types[0]),), same_type, lower_folded
)
MAX: Final = AggregateFunction(
    (is_ordered,), lambda aggregate, types: (Greatest(aggregate.arguments[0], types[0]),), same_type, lower_folded
)


def _of_bits(kind: type[Bits]) -> AggregateFunction:
    """Make a function of the bits of integers."""
    return AggregateFunction(
        (pa.types.is_signed_integer,),
        lambda aggregate, types: (kind(aggregate.arguments[0], types[0]),),
        same_type,
        lower_folded,
        of_nulls=pa.int32(),
    )


BIT_AND: Final = _of_bits(BitAnd)
BIT_OR: Final = _of_bits(BitOr)
BIT_XOR: Final = _of_bits(BitXor)
