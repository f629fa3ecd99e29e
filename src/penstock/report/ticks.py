"""Chooses the marks on an axis of numbers or time as a person would, and writes their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from penstock.model.duration import DAY, HOUR, MILLISECOND, MINUTE, SECOND, format_duration
from penstock.model.instants import format_instant

_ROUND: Final = (1, 2, 5, 10)
_SCALES: Final = ((1e12, "tn"), (1e9, "bn"), (1e6, "M"), (1e3, "k"))
# Steps that clocks and calendars have; below a millisecond and above a week, decimal ones.
_STEPS_US: Final = (
    *(n * MILLISECOND for n in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(n * SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 7)),
)


def number_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Mark a stretch at multiples of 1, 2 or 5 times a power of ten, so that the marks enclose it."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return [0.0, 1.0]
    if high <= low:
        low, high = (low - abs(low) / 2, low + abs(low) / 2) if low else (0.0, 1.0)
    step = _round_up((high - low) / max(1, most - 1))
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, last + 1)]


def time_ticks(low_us: int, high_us: int, most: int = 6) -> list[int]:
    """Mark a stretch of time at whole steps of a clock, within it."""
    step = time_step(high_us - low_us, most)
    first = -(-low_us // step)
    return [number * step for number in range(first, high_us // step + 1)]


def time_step(length_us: int, most: int = 6) -> int:
    """Choose the finest step of a clock that gives at most so many marks."""
    wanted = max(1, length_us) / max(1, most - 1)
    for step in _STEPS_US:
        if step >= wanted:
            return step if wanted > MILLISECOND else round(_round_up(wanted)) or 1
    return math.ceil(_round_up(wanted / DAY)) * DAY


def number_labels(ticks: Sequence[float]) -> list[str]:
    """Write numbers alike: one scale (k, M, bn) and the digits that tell them apart."""
    greatest = max((abs(t) for t in ticks), default=0.0)
    scale, sign = next(((s, sign) for s, sign in _SCALES if greatest >= max(s, 1e4)), (1.0, ""))
    gaps = [abs(b - a) / scale for a, b in pairwise(ticks)]
    gap = min((g for g in gaps if g > 0), default=1.0)
    digits = max(0, -math.floor(math.log10(gap) + 1e-9))
    return [("0" if t == 0 else f"{t / scale:,.{digits}f}{' ' + sign if sign else ''}") for t in ticks]


def short_number(value: float) -> str:
    """Write one number in at most three or four digits: 1,234,567 as ``1.23 M``."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    # Thousands are read as they are up to 9,999; millions are not.
    scale, sign = next(((s, sign) for s, sign in _SCALES if abs(value) >= max(s * 0.9995, 9_999.5)), (1.0, ""))
    scaled = value / scale
    if not sign and float(value).is_integer():
        return f"{value:,.0f}"
    digits = 0 if abs(scaled) >= 100 else (1 if abs(scaled) >= 10 else 2)
    return f"{scaled:,.{digits}f}{' ' + sign if sign else ''}"


def time_labels(ticks_us: Sequence[int]) -> list[str]:
    """Write instants in UTC, as fine as their distances need."""
    gap = min((b - a for a, b in pairwise(ticks_us)), default=MINUTE)
    form = "%d %b" if gap >= DAY else ("%H:%M" if gap >= MINUTE else "%H:%M:%S")
    if gap < SECOND:
        return [f"{_instant(t):%S}.{t % SECOND:06d}" for t in ticks_us]
    return [_instant(t).strftime(form) for t in ticks_us]


def length_labels(ticks_us: Sequence[int]) -> list[str]:
    """Write lengths of time from a beginning, which is 0."""
    return ["0" if t == 0 else format_duration(t) for t in ticks_us]


def instant_text(time_us: int) -> str:
    """Write an instant in UTC to the second: ``2026-01-05T14:30:00Z``."""
    return format_instant(time_us, digits=0)


def _instant(time_us: int) -> datetime:
    """Return an instant; what no calendar holds is as far as it goes."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if time_us > 0 else datetime.min.replace(tzinfo=UTC)


def _round_up(wanted: float) -> float:
    """Return the first of 1, 2, 5 times a power of ten that is not less."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(n * power for n in _ROUND if n * power >= wanted * (1 - 1e-9))
