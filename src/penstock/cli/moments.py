"""Instants and lengths in microseconds come in; words for people go out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from penstock.model.duration import DAY, HOUR, MINUTE, SECOND

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PAIRS: Final = ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", SECOND, "s"))


def moment(us: int | None) -> str:
    """Write an instant in UTC, without a fraction that is nothing."""
    if us is None:
        return "none yet"
    try:
        told = _EPOCH + timedelta(microseconds=us)
    except OverflowError:  # Spark's years have more than four digits
        return f"{us} us since 1970"
    whole = f"{told:%Y-%m-%d %H:%M:%S}"
    return f"{whole}.{told.microsecond:06d}".rstrip("0") if told.microsecond else whole


def clock_time(us: int) -> str:
    """Write a reading of the clock, to the second."""
    return moment(us // SECOND * SECOND)


def about(length_us: int) -> str:
    """Write a length in the two units that matter: ``2 h 5 min``."""
    if length_us < 0:
        return f"-{about(-length_us)}"
    for unit, name, smaller, smaller_name in _PAIRS:
        if length_us >= unit:
            rest = length_us % unit // smaller
            return f"{length_us // unit:,} {name}" + (f" {rest} {smaller_name}" if rest else "")
    return f"{length_us / SECOND:.3g} s"
