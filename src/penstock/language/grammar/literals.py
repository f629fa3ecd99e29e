"""Reads and writes string literals and quoted names as Spark does, with every escape."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from penstock.language.grammar.limits import MAX_NAME

_SIMPLE_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-1][0-7]{2})|(.))", re.DOTALL)
_PLAIN_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
NUMBER: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:L|S|Y|D|F|BD)?\Z", re.IGNORECASE)


def read_string(source: str) -> str:
    """Return the value of one quoted string, with Spark's default escapes; raise ValueError if it has none."""
    if source[0] in "rR":
        return source[2:-1]
    return _paired(_ESCAPE.sub(_unescape, source[1:-1]))


def _unescape(match: re.Match[str]) -> str:
    """Return the character an escape stands for; ``\\%`` and ``\\_`` stay, because LIKE reads them."""
    code, long_code, octal, other = match.groups()
    if octal:
        return chr(int(octal, 8))
    if other is None:
        point = int(code or long_code, 16)
        if point > 0x10FFFF:
            raise ValueError("a character beyond U+10FFFF")
        return chr(point)
    return match[0] if other in "%_" else _SIMPLE_ESCAPES.get(other, other)


def _paired(value: str) -> str:
    """Join surrogate pairs written as two escapes; raise ValueError on half a pair."""
    if not any("\ud800" <= c <= "\udfff" for c in value):
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16")


def write_string(value: str) -> str:
    """Write a string so that Spark with default settings reads the same value.

    ``${`` is escaped because Spark replaces ``${name}`` in SQL text by settings and environment variables.
    """
    out = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    out = out.replace("${", "\\u0024{")
    return "'" + (out if out.isprintable() else "".join(map(_shown, out))) + "'"


def _shown(sign: str) -> str:
    """Write a character that does not show itself as an escape."""
    if sign.isprintable():
        return sign
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


def quote(name: str) -> str:
    """Write an identifier in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def shortened(name: str) -> str:
    """Shorten a name that is made of an expression, so that it can be read again; different ones stay different."""
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME - 1 - len(digest)]}…{digest}"


def is_plain_word(name: str) -> bool:
    """Say whether a name may stand without backquotes, keywords aside."""
    return _PLAIN_WORD.match(name) is not None


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text, for lists that read better as prose."""
    return frozenset(words.split())
