"""Tells paths that Spark takes as patterns, and writes paths so that it does not."""

from __future__ import annotations

import re
from typing import Final

_PATTERN_SIGN: Final = re.compile(r"[{}\[\]*?\\]")


def is_pattern(path: str) -> bool:
    """Tell whether Spark takes a path as a pattern."""
    return _PATTERN_SIGN.search(path) is not None


def as_pattern(path: str) -> str:
    """Write a folder as a pattern that nothing else fits.

    On a restart Spark 4.3 asks for the files of the batch before, and refuses those outside the folder that it watches,
    unless it is a pattern.
    """
    path = path.rstrip("/")
    if is_pattern(path) or not path:
        return path or "/"
    last = f"{{{path[-1]}}}" if path[-1] in "^!-" else f"[{path[-1]}]"
    return f"{path[:-1]}{last}"


def literally(path: str) -> str:
    """Write a path so that Spark takes no sign of it as one of patterns."""
    return _PATTERN_SIGN.sub(r"\\\g<0>", path)
