"""Escapes text that anybody may have written, so that it can be shown on a terminal.

Values, names, comments and messages may hold signs that steer a terminal (ESC, BEL, C1), turn the direction of
writing, break lines, or do not show at all. ``str.isprintable`` is false of all of them, of lone surrogates too.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any, Final

LONGEST: Final = 500  # characters of a message
TAB: Final = 4  # columns


def shown(text: str) -> str:
    """Write a text on one line: white space as spaces, everything else that does not show as escapes."""
    return text if text.isprintable() else "".join(map(_shown_sign, text))


def visible(text: str) -> str:
    """Write a message on one line, shortened."""
    return shown(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


def block(text: str) -> str:
    """Write a text of several lines: they stay, tabs become spaces, everything else that does not show escapes."""
    return text if text.isprintable() else "\n".join(map(shown, text.expandtabs(TAB).split("\n")))


def json_text(value: Any, **options: Any) -> str:
    """Write JSON that holds the same data and shows: letters of all scripts as they are, other signs escaped."""
    text = json.dumps(value, ensure_ascii=False, **options)
    return text if text.isprintable() else "".join(map(_json_sign, text))


def columns(text: str) -> int:
    """Count the columns of a terminal that a text takes: wide letters take two, marks on letters none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _shown_sign(sign: str) -> str:
    """Write one character so that it shows."""
    if sign.isprintable():
        return sign
    return " " if sign.isspace() else f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


def _json_sign(sign: str) -> str:
    """Write one character of JSON; outside of strings, where escapes mean nothing, it has no other ones than these."""
    return sign if sign.isprintable() or sign == "\n" else json.dumps(sign)[1:-1]
