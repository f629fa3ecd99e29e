"""min and max, in the argument's own type."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.extremes import Greatest, Least
from penstock.evaluate.functions.bound import (
    AggregateFunction,
    BoundAggregate,
    Lowered,
    ValuesOf,
    is_ordered,
    same_type,
)


def _lower_extreme(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the least or greatest value in its own type."""
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
    (is_ordered,), lambda aggregate, types: (Least(aggregate.arguments[0], types[0]),), same_type, _lower_extreme
)
MAX: Final = AggregateFunction(
    (is_ordered,), lambda aggregate, types: (Greatest(aggregate.arguments[0], types[0]),), same_type, _lower_extreme
)
