"""Reads the environment variables by which a user switches something off."""

from __future__ import annotations

import os
from typing import Final

_OFF: Final = frozenset({"off", "no", "0", "false"})


def is_off(variable: str) -> bool:
    """Tell whether a variable says off, however it is written."""
    return os.environ.get(variable, "").strip().lower() in _OFF
