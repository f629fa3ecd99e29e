"""Learns what a window costs from what windows took; the live engine and the replay of a trace learn alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEW: Final = 0.25  # how much the last time counts against the ones before


@dataclass(slots=True)
class WindowCost:
    """Seconds of one window."""

    seconds: float
    known: bool = False  # measured, not guessed

    def learn(self, seconds: float) -> None:
        """Take a new measurement."""
        share = NEW if self.known else 1.0
        self.seconds += share * (seconds - self.seconds)
        self.known = True
