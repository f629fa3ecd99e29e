"""Chooses which tasks of a group run together, compiled for the simulator.

Golab, Bijay and Özsu 2006, §4: queries of a group read one synopsis; :mod:`penstock.schedule.periods` makes tasks of
them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.schedule.compiled import compiled

Array = np.ndarray[Any, Any]


@compiled
def run_together(until_due: Array, group: Array, priority: Array, sharing: int, chosen: Array) -> int:
    """Mark the tasks that run next, and return the one they were chosen for (Algorithms 1, 2 and 3).

    The lowest time until the deadline goes first, then the highest priority, then the first named. All tasks are looked
    at: they are sub-groups, a few dozen for hundreds of queries, and every tick changes the time of each.
    """
    best = 0
    for task in range(1, until_due.shape[0]):
        sooner = until_due[task] < until_due[best]
        if sooner or (until_due[task] == until_due[best] and priority[task] > priority[best]):
            best = task
    lowest = until_due[best]
    for task in range(until_due.shape[0]):
        same_group = group[task] == group[best] and sharing != 0
        late = lowest < 0 and ((sharing == 2 and until_due[task] < 0) or (sharing == 3 and until_due[task] <= 0))
        chosen[task] = task == best or (same_group and (until_due[task] == lowest or late))
    return best
