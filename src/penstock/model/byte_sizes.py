"""Reads and writes numbers of bytes as people write them: ``4 GB``."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BINARY: Final = {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str | int) -> int:
    """Read ``4 GB``, ``512 MiB`` or a number of bytes; raise ValueError for what is none, or is not above zero."""
    found = _SIZE.fullmatch(str(text))
    unit = None if found is None else {**_UNITS, **_BINARY}.get(found[2].upper())
    size = 0 if found is None or unit is None else int(Fraction(found[1]) * unit)
    if size <= 0:
        raise ValueError(f"'{str(text)[:40]}' is not a size; write for example '4 GB'")
    return size


def format_bytes(number: float) -> str:
    """Write a number of bytes in few letters: ``1.2 MB``."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number:.0f} B"
