"""Tells paths that Spark takes as patterns, and writes paths so that it does not."""

from __future__ import annotations

import re
from typing import Final

_PATTERN_SIGN: Final = re.compile(r"[{}\[\]*?\\]")


def is_pattern(path: str) -> bool:
    """Tell whether Spark takes a path as a pattern."""
    return _PATTERN_SIGN.search(path) is not None


def literally(path: str) -> str:
    """Write a path so that Spark takes no sign of it as one of patterns."""
    return _PATTERN_SIGN.sub(r"\\\g<0>", path)
