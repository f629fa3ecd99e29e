"""Partials are parted by number, and distinct words counted, as plain loops would."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.kernel.signing import by_number, distinct_rows


@pytest.mark.parametrize("count", [1, 7, 1 << 15, (1 << 15) + 5, 1 << 16, (1 << 16) + 5])  # 16 bits and more
def test_rows_are_ordered_by_number_and_then_as_they_came(count: int) -> None:
    numbers = np.random.default_rng(count).integers(0, count, 500)
    numbers[:2] = count - 1, 0
    order, starts = by_number(numbers, count)
    assert order.tolist() == sorted(range(500), key=lambda row: (numbers[row], row))
    assert len(starts) == count + 1
    for number in (0, count // 2, count - 1):
        own = order[starts[number] : starts[number + 1]]
        assert own.tolist() == np.flatnonzero(numbers == number).tolist()


@pytest.mark.parametrize("width", [0, 1, 3])
def test_distinct_rows_of_words_are_counted(width: int) -> None:
    words = np.random.default_rng(width).integers(-2, 2, (300, width))
    assert distinct_rows(words) == (len({tuple(row) for row in words.tolist()}) if width else 0)
    assert distinct_rows(words[:0]) == 0
