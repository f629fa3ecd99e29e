"""Writes and reads small pieces of the SQL of rows."""

from __future__ import annotations

import re
from typing import Final

from penstock.share.slices import Progression

_BARE: Final = re.compile(r"`(?:[^`]|``)+`")


def is_bare(text: str) -> bool:
    """Tell a plain column, which cannot fail, from an expression, which may."""
    return _BARE.fullmatch(text) is not None


def last_of(progression: Progression, time: str) -> str:
    """Write the last time of a progression that is not after the row's."""
    since = f"{time} - {progression.phase}L" if progression.phase else time
    return f"{time} - pmod({since}, {progression.step}L)"
