"""Keeps full garbage collections away from work that somebody waits for.

Python looks at all objects now and then, to find those that only refer to each other: half a second where there are
thousands of queries, and in the middle of a batch. While a batch is taken, only objects that are newer than it are
looked at. Somebody else has to look at all of them then: whoever has nothing better to do does so once a minute.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

EVERY_S: Final = 60.0  # between two looks at all objects, at least …
LATEST_S: Final = 300.0  # … and at most: where nobody has time, the end of a batch has to


class GarbageCollection:
    """What a process has put off; a program that freezes objects or collects garbage itself is let alone."""

    def __init__(self) -> None:
        """Put off nothing yet."""
        self._lock = threading.RLock()  # a collection may run code of whoever has objects to let go of
        self._holders = 0
        self._is_frozen = False
        self._looked_s = time.monotonic()

    @contextmanager
    def put_off(self, *, then_catch_up: bool = False) -> Iterator[None]:
        """Leave objects that are there now alone, however many threads ask for that."""
        with self._lock:
            self._holders += 1
            if self._holders == 1 and gc.isenabled() and not gc.get_freeze_count():
                gc.freeze()
                self._is_frozen = True
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if not self._holders and self._is_frozen:
                    gc.unfreeze()
                    self._is_frozen = False
            if then_catch_up or time.monotonic() - self._looked_s > LATEST_S:
                self.catch_up()

    def renew(self) -> None:
        """Leave alone also what came since: much of it is kept, and is garbage at once when the work is done."""
        with self._lock:
            if self._is_frozen:
                gc.freeze()
                self._looked_s = -EVERY_S  # it is worth a look as soon as somebody has time

    def catch_up(self) -> None:
        """Look at all objects, if that is due."""
        now_s = time.monotonic()
        if now_s - self._looked_s < EVERY_S:
            return
        with self._lock:
            if not gc.isenabled() or (gc.get_freeze_count() and not self._is_frozen):
                return
            self._looked_s = now_s
            if self._is_frozen:
                gc.unfreeze()
            gc.collect()
            if self._is_frozen:
                gc.freeze()


GARBAGE: Final = GarbageCollection()  # of this process
