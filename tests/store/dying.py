"""Durable writes that end the process: at the n-th moment that is reached, or at a moment of a name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.store import faults


class Died(BaseException):
    """The process ended here; nothing catches it."""


@contextmanager
def dying_at(nth: int, point: str = "", error: BaseException | None = None) -> Iterator[list[str]]:
    """Die, or fail with an error, at the n-th moment whose name begins with ``point``; give the names reached."""
    reached: list[str] = []

    def hook(name: str) -> None:
        if name.startswith(point):
            reached.append(name)
            if len(reached) - 1 == nth:
                raise Died if error is None else error

    faults.hook = hook
    try:
        yield reached
    finally:
        faults.hook = None
