"""Writes how many there are of something."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """Write a number of things: ``1 window``, ``1,200 windows``; ``many`` where it is not ``one`` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
