"""Variances and standard deviations, which share one component."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Array
from penstock.evaluate.components.moments import Moments
from penstock.evaluate.functions.bound import BoundAggregate, Lowered, ValuesOf, of_moments
from penstock.model.arrays import Int64Array


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


VAR_POP: Final = of_moments(Moments, _lower_var_pop)
VAR_SAMP: Final = of_moments(Moments, _lower_var_samp)
STDDEV_POP: Final = of_moments(Moments, _lower_stddev_pop)
STDDEV_SAMP: Final = of_moments(Moments, _lower_stddev_samp)
