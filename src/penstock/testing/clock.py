"""Reads instants as tests write them, and provides a clock that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

from penstock.errors import WrongType
from penstock.language.duration import parse_duration
from penstock.model.instants import EPOCH as UNIX_EPOCH

Instant = datetime | date | str | float  # text is ISO 8601; numbers are seconds since an epoch

EPOCH: Final = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday, midnight: windows up to a day are aligned with it
_MICROSECOND: Final = timedelta(microseconds=1)


def read_instant(value: Instant, epoch: datetime = EPOCH) -> datetime:
    """Read a point in time; without a zone it is UTC."""
    match value:
        case bool():
            raise ValueError("a boolean is not a time")
        case datetime():
            found = value
        case date():
            found = datetime(value.year, value.month, value.day)
        case str():
            found = datetime.fromisoformat(value.strip())
        case int() | float():
            try:
                found = epoch + timedelta(seconds=value)
            except (OverflowError, ValueError):
                raise ValueError("so many seconds are beyond all dates") from None
        case _:
            raise ValueError("a time is a datetime, ISO text, or seconds since the epoch")
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        raise ValueError("the years are 1 to 9999") from None


def checked_instant(value: Instant, epoch: datetime = EPOCH) -> datetime:
    """Read a point in time, or say how one is written."""
    try:
        return read_instant(value, epoch)
    except ValueError as error:
        hint = "Write a datetime, text such as '2026-01-05 09:30:00', or seconds since the epoch."
        raise WrongType(f"{value!r} is not a time: {error}", hint=hint) from None


def micros(instant: datetime) -> int:
    """Return microseconds since 1970, exactly."""
    return (instant - UNIX_EPOCH) // _MICROSECOND


class ManualClock:
    """A clock that moves only when told to; call it for microseconds since 1970, as an engine does."""

    def __init__(self, start: Instant = "2026-01-05 09:30:00") -> None:
        """Stop the clock at a time."""
        self._now = checked_instant(start)

    @property
    def now(self) -> datetime:
        """Return the time it shows."""
        return self._now

    def advance(self, by: str | float | timedelta) -> None:
        """Move on by a duration such as ``"5 min"``, or by seconds."""
        if isinstance(by, str):
            by = timedelta(microseconds=parse_duration(by))
        elif not isinstance(by, timedelta):
            by = timedelta(seconds=by)
        self._now += by

    def set(self, instant: Instant) -> None:
        """Show another time, earlier or later."""
        self._now = checked_instant(instant)

    def __call__(self) -> int:
        """Return the time in microseconds since 1970."""
        return micros(self._now)

    def __repr__(self) -> str:
        """Show the time."""
        return f'ManualClock("{self._now:%Y-%m-%d %H:%M:%S.%f}")'
