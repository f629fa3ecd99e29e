"""try_sum and try_avg: NULL in place of a sum or average that does not fit its type."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from penstock.evaluate.functions.bound import AggregateFunction, BoundAggregate, Lowered, ValuesOf
from penstock.evaluate.functions.sums import AVG, SUM


def _tried(function: AggregateFunction) -> AggregateFunction:
    """Make a function that answers NULL where another one fails."""

    def lower(bound: BoundAggregate, values: ValuesOf) -> Lowered:
        """Answer; what failed is NULL already."""
        return Lowered(function.lower(bound, values).array, None)

    return replace(function, lower=lower, distinct=function.distinct and _tried(function.distinct))


TRY_SUM: Final = _tried(SUM)
TRY_AVG: Final = _tried(AVG)
