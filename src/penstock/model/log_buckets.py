"""Counts values in buckets that grow by a constant factor, and reads percentiles off them within a relative error.

Bucket 0 holds what is less than the least value that is told apart, bucket i the values from least · GROWTH^(i-1) up to
least · GROWTH^i, and the last one all that is greater. Forty counters serve from a millisecond to two hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from penstock.model.arrays import FloatArray, Int64Array

BUCKETS: Final = 40
GROWTH: Final = 1.5
RELATIVE_ERROR: Final = GROWTH**0.5 - 1  # of a percentile: a bucket stands for its geometric middle


def bucket_of(values: FloatArray, least: FloatArray | float) -> Int64Array:
    """Return the bucket of each value."""
    with np.errstate(divide="ignore"):
        steps = np.floor(np.log(np.maximum(values, 0.0) / least) / np.log(GROWTH)) + 1
    return np.asarray(np.clip(steps, 0, BUCKETS - 1), np.int64)


def top_of(least: float) -> float:
    """Return the value from which on a percentile is told as the greatest value only."""
    return least * float(GROWTH ** (BUCKETS - 2))


def percentiles(counts: Int64Array, greatest: FloatArray, least: float, shares: Sequence[float]) -> FloatArray:
    """Return the values below which such shares of all values lie, by nearest rank; 0 stands for less than ``least``.

    Buckets are the last axis of ``counts``; the result has one value for each share in its place. Between ``least`` and
    :func:`top_of` a percentile is within :data:`RELATIVE_ERROR` of the exact one; beyond, it is the ``greatest`` value.
    """
    up_to = np.cumsum(np.asarray(counts, np.int64), axis=-1)[..., None, :]
    ranks = np.maximum(1, np.ceil(np.asarray(shares) * up_to[..., -1] - 1e-9))
    bucket = (up_to < ranks[..., None]).sum(axis=-1)  # beyond the last, where there are no values
    most = np.asarray(greatest, np.float64)[..., None]
    middle = np.where(bucket < BUCKETS - 1, np.minimum(most, least * GROWTH ** (bucket - 0.5)), most)
    return np.asarray(np.where((bucket == 0) | (bucket == BUCKETS), 0.0, middle), np.float64)
