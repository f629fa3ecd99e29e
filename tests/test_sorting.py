"""Numbers sorted digit by digit stand as those sorted by comparing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.sorting import FEW, stable_order

sizes = st.sampled_from([1, 2, 255, 1 << 16, (1 << 16) + 1, 1 << 31, 1 << 40, (1 << 48) + 3, 1 << 62])


@given(sizes, st.integers(0, 3 * FEW), st.integers(0, 1_000))
def test_numbers_sorted_by_their_digits_keep_the_order_of_equal_ones(size: int, count: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    numbers = draw.choice(draw.integers(0, size, max(1, count // 3)), count)
    assert stable_order(numbers, size).tolist() == np.argsort(numbers, kind="stable").tolist()


def test_smaller_types_are_sorted_too() -> None:
    numbers = np.array([3, 70_000, 3, 0], np.int32)
    assert stable_order(numbers, 70_001).tolist() == [3, 0, 2, 1]
    assert stable_order(np.empty(0, np.int16), 0).tolist() == []
