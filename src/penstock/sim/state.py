"""Defines the simulator's state: records in flat arrays that compiled code reads and writes by name."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Records = np.recarray[Any, Any]

# How a run of the compiled loop ends
DONE: Final = 0
PAUSED: Final = 1
POOL_FULL: Final = 2
LOG_FULL: Final = 3
STACK_FULL: Final = 4
TRACE_FULL: Final = 5


def _record(wholes: str, numbers: str) -> np.dtype[Any]:
    """Describe a record of whole numbers and others."""
    fields = [(name, np.int64) for name in wholes.split()] + [(name, np.float64) for name in numbers.split()]
    return np.dtype(fields)


# An operator: whose it is, what it reads, what comes next (edges), the other side of a join, and its costs.
OPERATOR: Final = _record(
    "attribute query stream edge_first edge_end before partner turn", "cost chance window bound slide remaining ideal"
)
# What a policy knows of the segment from an operator on; with adaptive selectivities it changes.
FACTS: Final = _record("", "selectivity mean_cost ideal weight extra passed")
# An operator's queue and its head; `left` is work left on a head that was begun, or -1; `kept` a join side's table.
QUEUE: Final = _record("head consumed first last seen seen_out kept place", "pending rank head_time due head_size left")
# A place in the list of those that may run: the operator, its head (very large: nothing waits) and what decides.
PLACE: Final = _record("operator head", "rank time")
# A stretch of the list: the first head in it by number, the highest rank and the earliest time of a head.
STRETCH: Final = _record("first", "top early")
# An item in the pool, in a queue or on the stack; on the stack, `next` is the operator that goes on.
ITEM: Final = _record("next tuple", "time amount ideal")
TUPLE: Final = _record("stream", "time")
STREAM: Final = _record("leaf_first leaf_end member_first", "")
ANSWER: Final = _record("query tuple", "time ideal done")
TRACE: Final = _record("", "time amount")
# The clock, memory and counts, once. No stretch before `waiting` holds anything that waits; `area` is memory times time
# until `last`, `charged` time spent on choosing.
STATE: Final = _record(
    "arrived points weighed free logged traced stacked turn flushing run waiting",
    "now memory peak area last charged latest_due judged_until flush_due",
)


class RunSettings(NamedTuple):
    """Settings of a run."""

    manner: int
    window: int  # of adaptive selectivities, in tuples; 0: static
    seed: int
    until: int  # scheduling points after which to pause
    fluid: bool
    preempt: bool
    synced: bool
    oracle: bool
    trace: bool
    alpha: float
    quantum: float
    charge: float  # time for each priority that is computed or compared, or each use of the calendar
    highest: float  # priority, of a calendar queue; 0: none is used


class Calendar(NamedTuple):
    """A calendar queue of operators (schedule/calendar.py)."""

    day: Array
    before: Array
    after: Array
    first: Array
    last: Array


class World(NamedTuple):
    """All arrays of a simulation: settings, operators, queues, tuples that wait, answers and the log."""

    how: RunSettings
    op: Records
    facts: Records
    queue: Records
    entries: Array  # operators that have a queue, in the order of their places
    places: Records
    stretches: Records
    calendar: Calendar
    edge_to: Array
    edge_inline: Array  # the next operator goes on at once, without a queue
    tuples: Records
    streams: Records
    leaves: Array  # by stream
    members: Array  # numbers of tuples, by stream
    values: Array  # by tuple and attribute: what decides fates
    next_answer: Array  # for oracles: by leaf and place in its stream, the place of the next tuple that passes
    work: Array  # for oracles: time to take all tuples before a place through
    pool: Records
    stack: Records
    scratch: Records  # for deadlines: all that waits
    log: Records
    trace: Records
    state: Records


def records(kind: np.dtype[Any], many: int) -> Records:
    """Make an array of empty records, whose fields are attributes also where nothing is compiled."""
    return np.zeros(many, dtype=kind).view(np.recarray)
