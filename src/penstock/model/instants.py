"""Points in time: microseconds since 1970, the clocks that tell them, and how they are written for people."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

Clock = Callable[[], int]  # microseconds
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def wall_clock_us() -> int:
    """Read the clock in microseconds since 1970."""
    return time.time_ns() // 1_000


def steady_clock_us() -> int:
    """Read a clock that nobody sets, in microseconds since some time."""
    return time.monotonic_ns() // 1_000


def format_instant(us: int) -> str:
    """Write an instant in UTC, without a fraction that is nothing."""
    try:
        told = EPOCH + timedelta(microseconds=us)
    except OverflowError:  # Spark's years have more than four digits
        return f"{us} us since 1970"
    whole = f"{told:%Y-%m-%d %H:%M:%S}"
    return f"{whole}.{told.microsecond:06d}".rstrip("0") if told.microsecond else whole
