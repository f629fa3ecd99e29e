"""Does what no answer needs in short pieces: old partials go, files are put together, what is left over is let go of.

A stream whose answers lag behind leaves such work until nothing waits. It may not wait for ever: what was left long ago
is gone on with in every batch, for a moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final

from penstock.stream.metrics import Observing

PIECE_S: Final = 0.02  # after which somebody else may go on; a single step may take longer
LATE_S: Final = 0.25  # that a batch waits at most for what should have been done long ago


class Upkeep:
    """The work of one stream that can wait, by name, in the order in which it was left."""

    def __init__(self, observing: Observing) -> None:
        """Begin with nothing to do; ``observing`` tells of each piece."""
        self.observing = observing
        self._left: dict[str, Iterator[None]] = {}
        self._planless = frozenset[str]()  # names of work that depends on no plan
        self._is_late = False

    def __bool__(self) -> bool:
        """Tell whether there is something to do."""
        return bool(self._left)

    def leave(
        self,
        work: Mapping[str, Iterator[None]],
        always: Mapping[str, Iterator[None]],
        planless: Mapping[str, Iterator[None]] | None = None,
    ) -> None:
        """Leave work that is cut into steps; ``always`` takes the place of what was left under the same name.

        Other work that was left before and is not done yet goes on as it is, and is late from now on. What is
        ``planless`` depends on no plan, and comes last of what is left now.
        """
        work = {**work, **(planless or {})}
        self._planless |= (planless or {}).keys()
        self._is_late = self._is_late or not self._left.keys().isdisjoint(work)
        self._left = {**work, **self._left, **always}

    def do_next(self, but: frozenset[str] = frozenset()) -> bool:
        """Do the next piece, ``but`` of the work of some names; False: there is no other."""
        if not self._left.keys() - but:
            return False
        self._go_on(PIECE_S, but)
        return True

    def catch_up(self) -> None:
        """Go on for a moment with what is late."""
        until = time.perf_counter() + LATE_S
        while self._is_late and (left := until - time.perf_counter()) > 0:
            self._go_on(left)

    def finish(self, *, planning: bool = False) -> None:
        """Do all of it; before a change of the plan, what depends on no plan may wait on."""
        waiting = self._planless if planning else frozenset[str]()
        while self._left.keys() - waiting:
            self._go_on(float("inf"), waiting)

    def _go_on(self, seconds: float, but: frozenset[str] = frozenset()) -> None:
        """Go on with the work that comes first, ``but`` that of some names, until it is done or a time has passed."""
        name, steps = next((one for one in self._left.items() if one[0] not in but), ("", iter(())))
        until = time.perf_counter() + seconds
        if name:
            with self.observing.background(name):
                if all(time.perf_counter() < until for _ in steps):
                    del self._left[name]
        self._is_late = self._is_late and bool(self._left)
