"""Describes the batch that a stream is taking as an item of work, which a policy compares with windows that wait.

The job of a batch and the driver that answers share the machine's cores and Python's interpreter. So what the batch
will make final, an alert for example, would wait for reports that are answered meanwhile, though these have time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.model.garbage_collection import GARBAGE
from penstock.model.instants import Clock
from penstock.schedule.policy import Head

NEW: Final = 0.25  # how much the last batch counts against the ones before
LEAST_S: Final = 1e-3  # that a batch is expected to take still


class BatchUnderWay:
    """The batch of a stream that is being taken, if there is one."""

    def __init__(self, clock: Clock) -> None:
        """Begin without a batch; ``clock`` tells since when there is one."""
        self.clock = clock
        self.since_us: int | None = None
        self.priority, self.soon_us = 1.0, 0  # of the most urgent query: its answers are wanted so soon
        self._seconds: float | None = None  # that a batch takes; None: none was taken

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take a batch; full garbage collections wait for its end."""
        self.since_us = began = self.clock()
        try:
            with GARBAGE.put_off():
                yield
            took = (self.clock() - began) / 1e6
            self._seconds = took if self._seconds is None else self._seconds + NEW * (took - self._seconds)
        finally:
            self.since_us = None

    def head(self, now_us: int) -> Head | None:
        """Describe the batch as policies see it, in seconds; None: there is none."""
        since_us = self.since_us
        if since_us is None or self._seconds is None:
            return None
        passed = (now_us - since_us) / 1e6
        left = max(LEAST_S, abs(self._seconds - passed))  # beyond what it usually takes, nobody knows
        times = since_us / 1e6, 1.0, (since_us + self.soon_us) / 1e6, now_us / 1e6
        return Head(1.0, left, max(LEAST_S, self._seconds), self.priority, left, *times)
