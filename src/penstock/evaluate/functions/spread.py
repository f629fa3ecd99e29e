"""Variances and standard deviations, which share one component."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Array, Component
from penstock.evaluate.components.moments import Moments
from penstock.evaluate.functions.bound import (
    AggregateFunction,
    BoundAggregate,
    Lowered,
    Types,
    ValuesOf,
    always,
    is_number,
)
from penstock.model.arrays import Int64Array
from penstock.model.query import Aggregate


def _moments(aggregate: Aggregate, types: Types) -> tuple[Component, ...]:
    """Keep the mean and the squared distances from it."""
    return (Moments(aggregate.arguments[0], types[0]),)


def _variance(bound: BoundAggregate, values: ValuesOf, fewer: int) -> tuple[Array, Int64Array]:
    """Return the variances with so many degrees of freedom fewer than values, and the degrees."""
    moments = values[bound.components[0]]
    degrees = np.asarray(moments[0]) - fewer
    with np.errstate(all="ignore"):
        return np.asarray(moments[2]) / np.maximum(degrees, 1), degrees


def _lower_var_pop(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the variance of all there are."""
    variance, degrees = _variance(bound, values, 0)
    return Lowered(pa.array(variance, mask=degrees <= 0), None)


def _lower_var_samp(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the variance of a sample; of one value it is NULL."""
    variance, degrees = _variance(bound, values, 1)
    return Lowered(pa.array(variance, mask=degrees <= 0), None)


def _lower_stddev_pop(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the standard deviation of all there are."""
    return _root(*_variance(bound, values, 0))


def _lower_stddev_samp(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer the standard deviation of a sample; of one value it is NULL."""
    return _root(*_variance(bound, values, 1))


def _root(variance: Array, degrees: Int64Array) -> Lowered:
    """Answer the square roots of variances."""
    with np.errstate(all="ignore"):
        return Lowered(pa.array(np.sqrt(variance), mask=degrees <= 0), None)


def _spread(lower: Callable[[BoundAggregate, ValuesOf], Lowered]) -> AggregateFunction:
    """Make a function of the moments of numbers."""
    return AggregateFunction((is_number,), _moments, always(pa.float64()), lower, of_nulls=pa.float64())


VAR_POP: Final = _spread(_lower_var_pop)
VAR_SAMP: Final = _spread(_lower_var_samp)
STDDEV_POP: Final = _spread(_lower_stddev_pop)
STDDEV_SAMP: Final = _spread(_lower_stddev_samp)
