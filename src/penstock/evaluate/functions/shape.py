"""skewness and kurtosis, which share one component; as Spark's they are NULL of values that are all equal."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Array
from penstock.evaluate.components.four_moments import FourMoments
from penstock.evaluate.functions.bound import BoundAggregate, Lowered, ValuesOf, of_moments


def _lower_skewness(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer how lopsided values lie about their mean."""
    n, _, m2, m3, _ = map(np.asarray, values[bound.components[0]])
    with np.errstate(all="ignore"):
        return _unless_equal(np.sqrt(n) * m3 / np.sqrt(m2 * m2 * m2), m2)


def _lower_kurtosis(bound: BoundAggregate, values: ValuesOf) -> Lowered:
    """Answer how far out values lie, in excess of a normal distribution."""
    n, _, m2, _, m4 = map(np.asarray, values[bound.components[0]])
    with np.errstate(all="ignore"):
        return _unless_equal(n * m4 / (m2 * m2) - 3.0, m2)


def _unless_equal(answers: Array, m2: Array) -> Lowered:
    """Answer where there are values that differ; NaN differs."""
    return Lowered(pa.array(answers, mask=m2 == 0), None)


SKEWNESS: Final = of_moments(FourMoments, _lower_skewness)
KURTOSIS: Final = of_moments(FourMoments, _lower_kurtosis)
