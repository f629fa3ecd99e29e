"""Writes instants and durations for people."""

from __future__ import annotations

from typing import Final

from penstock.model.duration import DAY, HOUR, MINUTE, SECOND
from penstock.model.instants import format_instant

_PAIRS: Final = ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", SECOND, "s"))


def moment(us: int | None) -> str:
    """Write an instant in UTC, or that there is none yet."""
    return "none yet" if us is None else format_instant(us)


def clock_time(us: int) -> str:
    """Write a reading of the clock, to the second."""
    return format_instant(us, digits=0)


def about(length_us: int) -> str:
    """Write a length in the two units that matter: ``2 h 5 min``."""
    if length_us < 0:
        return f"-{about(-length_us)}"
    for unit, name, smaller, smaller_name in _PAIRS:
        if length_us >= unit:
            rest = length_us % unit // smaller
            return f"{length_us // unit:,} {name}" + (f" {rest} {smaller_name}" if rest else "")
    return f"{length_us / SECOND:.3g} s"


def span(seconds: float) -> str:
    """Write a length as a figure tells it: ``80 ms``, ``1.2 s``, ``2 h 5 min``."""
    if seconds < 0.001:
        return "under 1 ms"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 60 else about(round(seconds * SECOND))
