"""Computes response, slowdown, tardiness, staleness and memory from the answers of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Summary:
    """Average, maximum and ℓ2 norm of a measure."""

    count: int
    average: float
    maximum: float
    norm: float

    def __str__(self) -> str:
        """Print the three."""
        return f"average {self.average:.4g}, maximum {self.maximum:.4g}, ℓ2 {self.norm:.4g}"


def summary(values: Array) -> Summary:
    """Sum values up; of none, all is 0."""
    if len(values) == 0:
        return Summary(0, 0.0, 0.0, 0.0)
    return Summary(len(values), float(values.mean()), float(values.max()), float(np.sqrt(np.square(values).sum())))


@dataclass(frozen=True, slots=True)
class SimOutcome:
    """What a run gave: an entry an answer, memory over time, and what scheduling took."""

    query: Array
    tuple: Array
    arrival: Array
    ideal_done: Array  # when it would have been done in an idle system
    done: Array
    ideal_of_query: Array
    memory_peak: float
    memory_average: float
    end: float
    points: int
    operators_run: int
    charged: float
    trace_time: Array
    trace_size: Array

    @property
    def response(self) -> Array:
        """Return each answer's time since its tuple came (Sharaf 2007, Definition 1 and 7)."""
        return np.asarray(self.done - self.arrival)

    @property
    def slowdown(self) -> Array:
        """Return each answer's delay beyond the ideal, by the ideal processing time (Definition 2, §3.4.1.2)."""
        return np.asarray(1.0 + (self.done - self.ideal_done) / self.ideal_of_query[self.query])

    def staleness(self, begin: float, end: float) -> Array:
        """Return the share of a time in which each query's output lacked an answer (Sharaf 2007, §4.1)."""
        if len(self.query) == 0:
            return np.zeros(len(self.ideal_of_query))
        order = np.lexsort((self.arrival, self.query))
        query, length = self.query[order], end - begin
        arrival, done = (np.clip(times[order] - begin, 0.0, length) for times in (self.arrival, self.done))
        # Answers may come in another order than tuples: what counts is how far all earlier ones reach. Queries are
        # laid side by side, so that one running maximum serves all.
        side = query * (length + 1.0)
        reach = np.maximum.accumulate(done + side)
        before = np.concatenate([[0.0], reach[:-1]])
        stale = np.maximum(0.0, done + side - np.maximum(arrival + side, before))
        return np.asarray(np.bincount(query, stale, len(self.ideal_of_query)) / length)


def tardiness(outcome: SimOutcome, slides: Array, until: float, only: int | None = None) -> Array:
    """Return how late each aggregate was: its last tuple done, after the end of its slide (Sharaf 2007, §3.5)."""
    found = []
    for query in range(len(slides)) if only is None else (only,):
        slide, mine = float(slides[query]), outcome.query == query
        ends = (np.floor(outcome.arrival[mine] / slide + 1e-9) + 1) * slide
        last = np.zeros(int(until / slide) + 2)
        np.maximum.at(last, np.minimum((ends / slide + 0.5).astype(int), len(last) - 1), outcome.done[mine])
        due = np.arange(len(last)) * slide
        kept = (due > 0) & (due <= until)
        found.append(np.maximum(0.0, last[kept] - due[kept]))
    return np.concatenate(found) if found else np.zeros(0)
