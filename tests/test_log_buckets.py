"""Percentiles are read off log buckets within the relative error that is stated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.log_buckets import BUCKETS, RELATIVE_ERROR, bucket_of, percentiles, top_of

LEAST = 0.001
SHARES = (0.01, 0.25, 0.5, 0.95, 0.99, 1.0)


def told_of(values: list[float], *shares: float) -> list[float]:
    counts = np.bincount(bucket_of(np.array(values), LEAST), minlength=BUCKETS)
    return [float(value) for value in percentiles(counts, np.array(max(values)), LEAST, shares)]


def exact(values: list[float], share: float) -> float:
    return sorted(values)[max(0, math.ceil(share * len(values) - 1e-9) - 1)]


@given(st.lists(st.floats(LEAST, top_of(LEAST) * 0.999), min_size=1, max_size=60), st.sampled_from(SHARES))
def test_a_percentile_is_within_the_relative_error_of_the_exact_one(values: list[float], share: float) -> None:
    [told] = told_of(values, share)
    true = exact(values, share)
    assert abs(told - true) <= RELATIVE_ERROR * true * (1 + 1e-9)


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=60), st.sampled_from(SHARES))
def test_outside_of_the_range_zero_and_the_greatest_value_are_told(values: list[float], share: float) -> None:
    [told] = told_of(values, share)
    true = exact(values, share)
    assert 0 <= told <= max(values)
    if true < LEAST * 0.999:
        assert told == 0
    if true >= top_of(LEAST) * 1.001:
        assert told == max(values)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=30))
def test_greater_shares_have_greater_percentiles(values: list[float]) -> None:
    told = told_of(values, *SHARES)
    assert told == sorted(told)


def test_of_no_values_every_percentile_is_zero() -> None:
    counts = np.zeros(BUCKETS, np.int64)
    assert percentiles(counts, np.array(0.0), LEAST, SHARES).tolist() == [0.0] * len(SHARES)


def test_many_are_read_at_once() -> None:
    counts = np.eye(3, BUCKETS, 1, dtype=np.int64)  # one value each, in buckets 1, 2 and 3
    told = percentiles(counts, np.full(3, 9.0), LEAST, [0.5])
    assert told.ravel().tolist() == pytest.approx([LEAST * 1.5**0.5, LEAST * 1.5**1.5, LEAST * 1.5**2.5])


def test_the_stated_error_is_under_a_quarter() -> None:
    assert round(RELATIVE_ERROR, 3) == 0.225
