"""Parses durations as people write them into whole microseconds."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from penstock.errors import InvalidWindow
from penstock.language.grammar.literals import word_set
from penstock.model.duration import DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND, format_duration

__all__ = ["LONGEST_US", "format_duration", "parse_duration"]

LONGEST_US: Final = 2**62  # sums and differences of two times still fit in a signed 64-bit integer

_SPELLINGS: Final = (
    (MICROSECOND, "us µs μs micro micros microsecond microseconds"),
    (MILLISECOND, "ms milli millis millisecond milliseconds"),
    (SECOND, "s sec secs second seconds"),
    (MINUTE, "min mins minute minutes"),
    (HOUR, "h hr hrs hour hours"),
    (DAY, "d day days"),
    (7 * DAY, "w week weeks"),
)
_UNITS: Final = {name: unit_us for unit_us, names in _SPELLINGS for name in names.split()}
_NOT_FIXED: Final = word_set("mon mons month months quarter quarters y yr yrs year years")
_PART: Final = re.compile(r"""\s*(['"]?)([0-9]*\.?[0-9]*)\1\s*([^\W\d_]*)""")
_EXISTING: Final = "units are us, ms, s, min, h, d and week"


@lru_cache(maxsize=1_024)  # thousands of queries write few durations
def parse_duration(text: str) -> int:
    """Read ``12 MIN``, ``'90 s'``, ``INTERVAL '5' MINUTE`` or ``1 h 30 min`` as microseconds."""
    body = _body(text)
    total, at = Fraction(0), 0
    while at < len(body):
        part = _PART.match(body, at)
        if part is None or not part[2].strip(".") or part.end() == at:
            raise InvalidWindow(
                f"{_shown(text)} is not a duration", detail=_EXISTING, hint="Write for example '12 min'."
            )
        total += _amount(part[2], text) * _unit(part[3], text)
        at = part.end()
    return _whole(total, text)


def _body(text: str) -> str:
    """Strip the word INTERVAL and quotes around the whole."""
    body = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE).strip()
    quote = body[:1]
    if quote in ("'", '"') and len(body) > 1 and body[-1] == quote and body.count(quote) == 2:
        body = body[1:-1].strip()
    if not body:
        raise InvalidWindow("a duration is missing", detail=_EXISTING, hint="Write for example '12 min'.")
    return body


def _amount(digits: str, text: str) -> Fraction:
    """Read the number of one part."""
    if len(digits) > 40:
        raise InvalidWindow(f"{_shown(text)} is too long", detail="the longest duration is 2^62 microseconds")
    return Fraction(digits + "0" if digits.endswith(".") else digits)


def _unit(word: str, text: str) -> int:
    """Return a unit's length, or say why it is none."""
    unit = word.lower()
    if unit in _UNITS:
        return _UNITS[unit]
    if unit in _NOT_FIXED:
        what = f'"{word}" has no fixed length'
        raise InvalidWindow(what, detail="months, quarters and years differ in length", hint="Write days instead.")
    what = f'there is no unit "{word}"' if word else f"{_shown(text)} has no unit"
    raise InvalidWindow(what, detail=_EXISTING)


def _whole(total: Fraction, text: str) -> int:
    """Refuse fractions of a microsecond and absurd lengths."""
    if total.denominator != 1:
        raise InvalidWindow(f"{_shown(text)} is not a whole number of microseconds")
    if total > LONGEST_US:
        raise InvalidWindow(f"{_shown(text)} is too long", detail="the longest duration is 2^62 microseconds")
    return int(total)


def _shown(text: str) -> str:
    """Quote a piece of the user's text, shortened."""
    plain = " ".join(text.split()).strip("'\"")
    return f'"{plain if len(plain) <= 40 else plain[:37] + "..."}"'
