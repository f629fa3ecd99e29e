"""Finds the columns that canonical text reads, and replaces them by other expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

# In canonical text every name is quoted, and a field follows a dot. Strings are matched to be skipped.
_NAMES: Final = re.compile(r"'(?:\\.|[^'\\])*'|`(?P<name>(?:[^`]|``)+)`")
_BARE: Final = re.compile(r"`(?:[^`]|``)+`")


def is_bare(text: str) -> bool:
    """Tell a plain column, which cannot fail, from an expression, which may."""
    return _BARE.fullmatch(text) is not None


def names_in(text: str) -> frozenset[str]:
    """List the columns that an expression reads."""
    return frozenset(name for _, name in _columns(text))


def reading(text: str, instead: Mapping[str, str]) -> str:
    """Write an expression anew that reads other expressions in place of some columns."""
    parts, done = [], 0
    for match, name in _columns(text):
        if name in instead:
            parts += [text[done : match.start()], f"({instead[name]})"]
            done = match.end()
    return "".join([*parts, text[done:]])


def _columns(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Find the names that are columns: no strings, and no fields."""
    for match in _NAMES.finditer(text):
        if match["name"] is not None and text[max(0, match.start() - 1)] != ".":
            yield match, match["name"].replace("``", "`")
