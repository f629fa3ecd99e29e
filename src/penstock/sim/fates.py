"""Draws the values that decide which tuples pass an operator, once for all policies."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LEAST = 1e-9  # a value of nothing would pass what lets nothing pass


def uniform(tuples: int, attributes: int, seed: int, *, steps: int = 0) -> Array:
    """Draw uniform values in (0, 1]; with ``steps``, whole steps of it as 1 … 100 (Sharaf 2007, §3.7)."""
    values = 1.0 - np.random.default_rng([seed, 7]).random((tuples, attributes))
    return np.ceil(values * steps) / steps if steps else values


def moving_gaussian(times: Array, attributes: int, seed: int, *, spread: float, intervals: int = 100) -> Array:
    """Draw Gaussian values in hundredths, whose mean moves from 50 up by one with each interval of time (§3.8.5)."""
    draw = np.random.default_rng([seed, 8])
    share = (times - times[0]) / max(times[-1] - times[0], LEAST)
    mean = 50.0 + np.minimum(np.floor(share * intervals), intervals - 1)
    values = draw.normal(mean[:, None], spread, (len(times), attributes)) / 100.0
    return np.asarray(np.maximum(values, LEAST))
