"""Tells by how many standard errors 95 of 100 estimates are off at most, where the error itself is estimated."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NORMAL_95: Final = 1.959963984540054
LEAST: Final = 1.0  # degrees of freedom
# The quantile of Student's distribution in powers of 1/ν (Fisher and Cornish 1960), within 0.01 from ν = 3 on.
_POWERS: Final = (
    (NORMAL_95**3 + NORMAL_95) / 4,
    (5 * NORMAL_95**5 + 16 * NORMAL_95**3 + 3 * NORMAL_95) / 96,
    (3 * NORMAL_95**7 + 19 * NORMAL_95**5 + 17 * NORMAL_95**3 - 15 * NORMAL_95) / 384,
    (79 * NORMAL_95**9 + 776 * NORMAL_95**7 + 1482 * NORMAL_95**5 - 1920 * NORMAL_95**3 - 945 * NORMAL_95) / 92_160,
)


def student_95(freedom: Floats) -> Floats:
    """Return the quantile for degrees of freedom, which need not be whole; of less than one they count as one."""
    part = 1.0 / np.maximum(freedom, LEAST)
    found = np.zeros_like(part)
    for coefficient in reversed(_POWERS):
        found = (found + coefficient) * part
    return found + NORMAL_95
