"""Finds what must run now so that nothing is answered too late (Babcock et al. 2004, §5.1), for queues of operators.

The simulator's compiled twin is :mod:`penstock.sim.flushing`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

TIGHT: Final = 1e-9


@dataclass(frozen=True, slots=True)
class DueWork:
    """What is left to be done of something that waits, in seconds of one worker, and when that is due."""

    due: float
    seconds: float


def flush_limit(waiting: Iterable[DueWork], now: float, workers: float = 1.0, within: float = 0.0) -> float:
    """Return when at the latest must be due what runs next; infinity: all deadlines can wait.

    What is due first is done first in the worst case, by so many workers. If something is on the verge of missing its
    deadline then, nothing that is due later may run. A step is not interrupted: ``within`` is how long the one that
    would be chosen takes, and what would be on the verge after it is so now.
    """
    work: dict[float, float] = {}
    for one in waiting:
        work[one.due] = work.get(one.due, 0.0) + one.seconds
    total = 0.0
    for due in sorted(work):
        total += work[due]
        if due - now - total / workers <= within + TIGHT * max(1.0, now):
            return due
    return math.inf
