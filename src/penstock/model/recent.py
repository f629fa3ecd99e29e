"""Caches the things used last, up to a number of them, and makes each once.

Streams run in threads of their own and share what is kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)
Thing = TypeVar("Thing")


class Recent(Generic[Name, Thing]):
    """The things used last, up to a number of them."""

    def __init__(self, most: int) -> None:
        """Start with none."""
        self._most, self._lock = most, Lock()
        self._things: dict[Name, Thing] = {}  # the least recently used first

    def get(self, name: Name) -> Thing | None:
        """Return a thing that is kept."""
        with self._lock:
            return self._things.get(name)

    def copy(self) -> Recent[Name, Thing]:
        """Keep the same things apart from here on."""
        copied: Recent[Name, Thing] = Recent(self._most)
        with self._lock:
            copied._things = dict(self._things)
        return copied

    def keep(self, name: Name, thing: Thing) -> Thing:
        """Keep a thing, and let go of the one not used for longest if there are too many."""
        with self._lock:
            self._things.pop(name, None)
            self._things[name] = thing
            if len(self._things) > self._most:
                self._things.pop(next(iter(self._things)))
            return thing

    def get_or(self, name: Name, make: Callable[[], Thing]) -> Thing:
        """Return a thing that is kept, or make and keep it."""
        known = self.get(name)
        return self.keep(name, make() if known is None else known)
