"""Writes durations in microseconds for people."""

from __future__ import annotations

from typing import Final

MICROSECOND: Final = 1
MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_UNITS: Final = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"), (MILLISECOND, "ms"), (MICROSECOND, "us"))


def format_duration(length_us: int) -> str:
    """Write a length in the largest unit that divides it: 900_000_000 → ``15 min``."""
    if length_us == 0:
        return "0 s"
    for unit_us, name in _UNITS:
        if length_us % unit_us == 0:
            return f"{length_us // unit_us} {name}"
    raise AssertionError("one microsecond divides every length")


def about(length_us: int) -> str:
    """Write a mean length in three digits: 35,294,118 us as ``35.3 s``."""
    unit_us, name = next(((u, n) for u, n in _UNITS if length_us >= u), (MICROSECOND, "us"))
    return f"{length_us / unit_us:.3g} {name}" if length_us < 1000 * DAY else f"{length_us / DAY:,.0f} d"
