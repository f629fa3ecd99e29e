"""Writes small pieces of the SQL of rows."""

from __future__ import annotations

from penstock.share.slices import Progression


def last_of(progression: Progression, time: str) -> str:
    """Write the last time of a progression that is not after the row's."""
    since = f"{time} - {progression.phase}L" if progression.phase else time
    return f"{time} - pmod({since}, {progression.step}L)"
