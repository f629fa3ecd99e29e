"""Keeps a calendar queue: it finds a highest priority in constant time (Brown 1988; Sharaf 2007, §4.4.1).

A *day* is a class of priorities within one factor. Each is a list; the first of the highest day that is not empty is
taken, so that no priority of something that has not changed is computed or compared again.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from penstock.schedule.compiled import inlined, lean

Array = np.ndarray[Any, Any]
FACTOR: Final = 1.1  # between the priorities of one day and the next
DAYS: Final = 128


@inlined
def day_of(priority: float, highest: float, days: int) -> int:
    """Tell the day of a priority; the highest priority is on the last day, and all that are very low on the first."""
    if priority <= 0.0:
        return 0
    ago = math.floor(math.log(highest / priority) / math.log(FACTOR) + 1e-9)
    return int(max(0.0, days - 1 - max(0.0, ago)))


@lean
def leave(number: int, day: Array, before: Array, after: Array, first: Array, last: Array) -> None:
    """Take an entry off its day, if it has one."""
    today = day[number]
    if today < 0:
        return
    if before[number] >= 0:
        after[before[number]] = after[number]
    else:
        first[today] = after[number]
    if after[number] >= 0:
        before[after[number]] = before[number]
    else:
        last[today] = before[number]
    day[number] = -1


@lean
def enter(number: int, today: int, day: Array, before: Array, after: Array, first: Array, last: Array) -> None:
    """Put an entry at the end of a day."""
    day[number], before[number], after[number] = today, last[today], -1
    if last[today] >= 0:
        after[last[today]] = number
    else:
        first[today] = number
    last[today] = number


@lean
def first_of(first: Array) -> int:
    """Return the first entry of the highest day that holds one; -1 of an empty calendar."""
    for today in range(first.shape[0] - 1, -1, -1):
        if first[today] >= 0:
            return int(first[today])
    return -1
