"""Estimates how many rows of a stream agree in every column: a sample keeps or sheds them together.

Each kept row has a sign by its hash, 1 or −1, which rows that agree share. The square of a sum of signs is on average
the sum of the squares of the numbers of rows that agree (Alon, Matias and Szegedy 1996), whatever they are. Divided by
the number of rows it tells by how much the variance of a sampled sum is greater than that of rows which all differ
(the design effect of Kish 1965). One square tells little, so those of all partials of many batches are averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.model.arrays import Int64Array

LASTING: Final = 0.99  # of what earlier batches told still counts after the next one
ENOUGH: Final = 64.0  # partials of like size; from so many on, a stream that is not sampled need not tell more
NOTHING_KNOWN: Final = 4.0  # partials that count as if they had told that no rows agree
STEPS: Final = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0)


@dataclass(frozen=True, slots=True)
class Twins:
    """What the batches of a stream have told so far."""

    told: float = 0.0  # partials of like size
    squares: float = 0.0  # of signed sums, each as a part of its rows, added up over these

    def needs_more(self, level: int) -> bool:
        """Tell whether the rows of a batch are to have signs."""
        return level > 0 or self.told < ENOUGH

    def after(self, signed: Int64Array, rows: Int64Array) -> Twins:
        """Take the signed sums and the rows that were kept of a batch's partials."""
        total, spread = float(rows.sum()), float((rows.astype(np.float64) ** 2).sum())
        if not spread:
            return self
        weight = total * total / spread
        ratio = float((signed.astype(np.float64) ** 2).sum()) / total
        return Twins(LASTING * self.told + weight, LASTING * self.squares + weight * ratio)

    @property
    def factor(self) -> float:
        """Return by what variances are multiplied: one of a few steps, so that jobs stay as they were compiled."""
        found = (self.squares + NOTHING_KNOWN) / (self.told + NOTHING_KNOWN)
        return min(STEPS, key=lambda step: abs(np.log(step / max(found, 1.0))))

    def to_record(self) -> tuple[float, float]:
        """Write it for a commit."""
        return self.told, self.squares

    @staticmethod
    def from_record(record: Sequence[float]) -> Twins:
        """Read it back."""
        return Twins(*record)
