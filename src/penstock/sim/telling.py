"""Sums a run up in plain numbers: in all, for each class of queries, and over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from penstock.sim.metrics import SimOutcome, summary, tardiness

Array = np.ndarray[Any, Any]
PARTS: Final = 24  # stretches of time


def in_all(outcome: SimOutcome, slides: Array, begin: float, last: float, metrics: Sequence[str]) -> dict[str, Any]:
    """Sum a run up by the measures asked for."""
    end = max(outcome.end, last + 1e-12)
    found: dict[str, Any] = {"answers": len(outcome.done)}
    for name in ("response", "slowdown"):
        if name in metrics:
            found |= _summed(name, getattr(outcome, name))
    if "tardiness" in metrics and np.any(slides > 0):
        found |= _summed("tardiness", _tardiness(outcome, slides, last))
    if "staleness" in metrics:
        found["staleness"] = float(outcome.staleness(begin, end).mean())
    if "memory" in metrics:
        found |= {"memory_average": outcome.memory_average, "memory_peak": outcome.memory_peak}
    return found | {"scheduling_points": outcome.points, "charged": outcome.charged}


def by_class(
    outcome: SimOutcome, class_of: Sequence[str], slides: Array, begin: float, last: float, metrics: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Sum a run up for each class of queries."""
    stale = outcome.staleness(begin, max(outcome.end, last + 1e-12)) if "staleness" in metrics else None
    names, found = np.array(class_of), {}
    for name in dict.fromkeys(class_of):
        mine = names == name
        answers = mine[outcome.query]
        row: dict[str, Any] = {"queries": int(mine.sum()), "answers": int(answers.sum())}
        for measure in ("response", "slowdown"):
            if measure in metrics:
                row |= _summed(measure, getattr(outcome, measure)[answers])
        if "tardiness" in metrics and np.any(slides[mine] > 0):
            row |= _summed("tardiness", _tardiness(outcome, np.where(mine, slides, 0.0), last))
        if stale is not None:
            row["staleness"] = float(stale[mine].mean())
        found[name] = row
    return found


def over_time(outcome: SimOutcome, last: float, metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Average the answers of each stretch of time; the memory is the most in it."""
    edges = np.linspace(0.0, max(outcome.end, last), PARTS + 1)
    part = np.clip(np.searchsorted(edges, outcome.done, side="left") - 1, 0, PARTS - 1)
    counts, rows = np.bincount(part, minlength=PARTS), []
    sums = {n: np.bincount(part, getattr(outcome, n), PARTS) for n in ("response", "slowdown") if n in metrics}
    traced = np.clip(np.searchsorted(edges, outcome.trace_time, side="left") - 1, 0, PARTS - 1)
    for number in range(PARTS):
        row: dict[str, Any] = {"until": float(edges[number + 1]), "answers": int(counts[number])}
        for name, total in sums.items():
            row[f"{name}_average"] = float(total[number] / counts[number]) if counts[number] else None
        if len(outcome.trace_time):
            mine = outcome.trace_size[traced == number]
            row["memory_peak"] = float(mine.max()) if len(mine) else None
        rows.append(row)
    return rows


def _summed(name: str, values: Array) -> dict[str, float]:
    """Name average, maximum and ℓ2 norm of a measure."""
    found = summary(values)
    return {f"{name}_average": found.average, f"{name}_maximum": found.maximum, f"{name}_norm": found.norm}


def _tardiness(outcome: SimOutcome, slides: Array, last: float) -> Array:
    """Return how late the answers of all aggregates were."""
    found = [tardiness(outcome, slides, last, query) for query in np.flatnonzero(slides > 0).tolist()]
    return np.concatenate(found) if found else np.zeros(0)
