"""Says when work that can wait must not wait any longer, so that it never starves."""

from __future__ import annotations

from typing import Final

from penstock.model.instants import Clock

OWED_US: Final = 2_000_000  # without a turn, after which background work gets one though others wait


class BackgroundShare:
    """Gives background work one turn in a while, whatever else waits."""

    def __init__(self, clock: Clock) -> None:
        """Count from the first time that there is something to do, by a clock that nobody sets."""
        self._clock = clock
        self._since_us: int | None = None

    def is_owed(self) -> bool:
        """Tell whether a turn is owed to what waits; called while something does."""
        if self._since_us is None:
            self._since_us = self._clock()
        return self._clock() - self._since_us >= OWED_US

    def had(self) -> None:
        """Note that it had a turn, or that nothing waits."""
        self._since_us = None
