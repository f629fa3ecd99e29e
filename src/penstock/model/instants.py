"""Reads the clocks and writes points in time, which are microseconds since 1970, in one form."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Final

Clock = Callable[[], int]  # microseconds
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DAY_US: Final = 86_400_000_000
DIGITS: Final = 6  # of a second's fraction: the time of an event has them all, a reading of the clock fewer
CYCLE_YEARS: Final = 400  # after which the Gregorian calendar repeats
CYCLE_DAYS: Final = 146_097
_FIRST_DAY: Final = date(1, 1, 1).toordinal() - EPOCH.toordinal()


def wall_clock_us() -> int:
    """Read the clock in microseconds since 1970."""
    return time.time_ns() // 1_000


def steady_clock_us() -> int:
    """Read a clock that nobody sets, in microseconds since some time."""
    return time.monotonic_ns() // 1_000


def format_instant(us: int, digits: int = DIGITS) -> str:
    """Write an instant as ISO 8601 in UTC, always with as many digits: ``2026-01-05T14:30:00.000000Z``."""
    return f"{format_local(us, digits)}Z"


def format_local(us: int, digits: int = DIGITS) -> str:
    """Write a date and a time of no zone, which are counted in microseconds as if they were UTC."""
    days, in_day = divmod(us, DAY_US)
    seconds, fraction = divmod(in_day, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{format_day(days)}T{clock}" + (f".{fraction:06d}"[: digits + 1] if digits else "")


def format_day(days: int) -> str:
    """Write a day, counted from 1970-01-01; years that are not 1 to 9999 as ISO 8601 has them: 0000, -0001, +10000."""
    cycles, within = divmod(days - _FIRST_DAY, CYCLE_DAYS)
    day = date.fromordinal(within + 1)  # the calendar of the Gregorian cycle that begins with year 1
    year = day.year + cycles * CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{day.month:02d}-{day.day:02d}"


def python_instant(us: int) -> datetime | str:
    """Return an instant as Python has it; one outside of the years 1 to 9999, which Python has not, as its text."""
    try:
        return EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return format_instant(us)


def python_local(us: int) -> datetime | str:
    """Return a date and time of no zone as Python has it, or its text."""
    found = python_instant(us)
    return found.replace(tzinfo=None) if isinstance(found, datetime) else format_local(us)


def python_day(days: int) -> date | str:
    """Return a day as Python has it, or its text."""
    ordinal = days + EPOCH.toordinal()
    return date.fromordinal(ordinal) if 0 < ordinal <= date.max.toordinal() else format_day(days)
