"""Finds the rates of this machine once, without being asked: a few milliseconds after every batch, in the background.

What is found serves the engines that are opened later. Those that run keep the rates that they began with, so no plan
changes because something was measured.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Final

from penstock.errors import StateError
from penstock.store.rates import background_is_off, keep_speeds, kept_speeds
from penstock.stream.machine_speed import PIECES, seconds_of

ROUNDS: Final = 6  # of all pieces: of each, the least time counts, as what disturbs it only adds
LAST_IN_LINE: Final = 19  # the niceness of a thread that runs when nobody else wants to


class BackgroundCalibration:
    """Measures one piece after each batch, until all were measured often enough."""

    def __init__(self) -> None:
        """Measure only where nothing was measured yet."""
        self._wanted = [] if background_is_off() or kept_speeds() is not None else [*PIECES] * ROUNDS
        self._least: dict[str, float] = {}
        self._aside: threading.Thread | None = None

    def go_on(self) -> None:
        """After a batch, measure the next piece aside; nothing is waited for."""
        if self._wanted and (self._aside is None or not self._aside.is_alive()):
            self._aside = threading.Thread(target=self.measure_next, name="calibrating", daemon=True)
            self._aside.start()

    def wait(self) -> None:
        """Wait until the piece that is being measured is done."""
        if self._aside is not None:
            self._aside.join()

    def measure_next(self) -> None:
        """Measure a piece; after the last one, keep what was found for this machine."""
        with suppress(OSError, AttributeError):  # threads have a niceness of their own on Linux
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LAST_IN_LINE)
        piece = self._wanted.pop()
        self._least[piece] = min(seconds_of(piece), self._least.get(piece, float("inf")))
        if not self._wanted:
            with suppress(StateError):  # a folder that cannot be written: the usual rates serve
                keep_speeds(self._least)
