"""Measures in Spark's workers what users' functions cost, and adds it up in the driver by the name of their code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """What calls of a function have taken so far in all workers of an application."""

    rows: int = 0
    seconds: float = 0.0


_TOTALS: dict[tuple[str, str], tuple[Any, Any]] = {}  # application and function → Spark's accumulators
_LOCK = threading.Lock()


def measured(session: SparkSession, pinned: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls a function and notes for how many rows it did so, and how long that took."""
    rows, seconds = _totals(session, pinned)

    def timed(*arguments: Any) -> Any:
        began = perf_counter()
        found = call(*arguments)
        seconds.add(perf_counter() - began)
        rows.add(len(arguments[0]))
        return found

    return timed


def cost_of(session: SparkSession, pinned: str) -> MeasuredCost:
    """Return what a function has cost so far."""
    rows, seconds = _totals(session, pinned)
    return MeasuredCost(rows.value, seconds.value)


def _totals(session: SparkSession, pinned: str) -> tuple[Any, Any]:
    """Return the accumulators of a function; they stay for as long as the application."""
    context: Any = session.sparkContext
    with _LOCK:
        key = str(context.applicationId), pinned
        if key not in _TOTALS:
            _TOTALS[key] = context.accumulator(0), context.accumulator(0.0)
        return _TOTALS[key]
