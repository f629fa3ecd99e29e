"""Defines a scheduling policy: its priority function, and what the priority depends on.

The highest goes first; between equals, the one whose head came first, then the one named first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from penstock.model.arrays import FloatArray, Int64Array
from penstock.schedule.segments import Segments


class Head(NamedTuple):
    """What a priority knows of the tuple at the head of a queue and of the operators that begin there."""

    selectivity: float  # tuples expected at the end for one that enters (Sharaf 2007, §2.1: S)
    cost: float  # expected time to take one tuple through (C with a bar)
    ideal: float  # time that a tuple takes which no operator discards and which never waits (T)
    weight: float  # the query's importance
    extra: float  # whatever the policy's own ``prepare`` worked out; live, the time for all that waits
    arrival: float  # when the tuple came
    pending: float  # how many tuples wait
    due: float  # when its answer is due
    now: float  # the time


class Heads(NamedTuple):
    """What is known of many heads: each field has a number for every one of them."""

    selectivity: FloatArray
    cost: FloatArray
    ideal: FloatArray
    weight: FloatArray
    extra: FloatArray
    arrival: FloatArray
    pending: FloatArray
    due: FloatArray
    now: FloatArray

    @staticmethod
    def of(heads: Sequence[Head]) -> Heads:
        """Put heads beside one another."""
        return Heads(*np.array(heads, np.float64).reshape(len(heads), len(Head._fields)).T)

    def chosen(self, places: Int64Array) -> Heads:
        """Return the heads of some places, in their order."""
        return Heads(*(field[places] for field in self))

    def with_more(self, heads: Sequence[Head]) -> Heads:
        """Return these heads, and some behind them."""
        if not heads:
            return self
        return Heads(*(np.concatenate(pair) for pair in zip(self, Heads.of(heads), strict=True)))

    def each(self) -> list[Head]:
        """List the heads one by one."""
        return [Head(*numbers) for numbers in zip(*(field.tolist() for field in self), strict=True)]


Priority = Callable[[Head], float]


class Manner(IntEnum):
    """What a priority depends on, so that no more than needed is computed again."""

    STATIC = 0  # on the segment only
    HEAD = 1  # also on the tuple at the head
    AGING = 2  # the segment's rank times the head's wait
    LIVE = 3  # on anything
    TURNS = 4  # queries take turns; the priority decides within one
    HYBRID = 5  # what can still meet its time goes by that time, the rest by priority (Sharaf 2007, §3.5.2)
    FLUSH = 6  # by priority until a deadline is tight (Babcock et al. 2004, §5.1)
    FLUSH_HEADS = 7  # the same, judged by the heads of queues only (§5.2)
    QUEUE = 8  # on the segment and what waits in its queue, not on the time


@dataclass(frozen=True, slots=True)
class Policy:
    """One way to decide what runs next."""

    name: str
    words: str
    priority: Priority
    manner: Manner
    prepare: Callable[[Segments, float], np.ndarray[Any, Any]] | None = None
    knob: float = 0.0
    oracle: bool = False

    def __str__(self) -> str:
        """Print the name."""
        return self.name

    def extra(self, segments: Segments) -> np.ndarray[Any, Any]:
        """Work out the policy's own number of every segment."""
        if self.prepare is None:
            return np.zeros(len(segments.cost))
        return np.asarray(self.prepare(segments, self.knob), dtype=np.float64)
