"""Estimates how much memory many Python objects take, from a sample of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getsizeof
from typing import Final, TypeVar

T = TypeVar("T")

SAMPLED: Final = 64
SLOT: Final = 8  # bytes of a reference
NUMBER: Final = 32  # bytes of a whole number of Python's


def bytes_of_all(values: Sequence[T], size: Callable[[T], int] = getsizeof) -> int:
    """Estimate the bytes of objects and of the references to them: an even sample of them stands for all."""
    if not values:
        return 0
    sample = values[:: max(1, len(values) // SAMPLED)]
    return round(sum(map(size, sample)) / len(sample) * len(values)) + SLOT * len(values)


def bytes_of_row(row: Sequence[object]) -> int:
    """Return the bytes of a tuple with all that is in it."""
    return getsizeof(row) + sum(map(getsizeof, row))
