"""Computes the lower envelopes of progress charts (Babcock et al. 2004, §3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Chart:
    """Operator points (time spent so far, size left), from (0, 1) to the last size, which is 0."""

    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        """Check that time goes on and that the chart begins with one whole unit."""
        if len(self.points) < 2 or any(a[0] >= b[0] for a, b in pairwise(self.points)):
            raise ValueError("a progress chart needs two points or more, each later than the one before")

    def __str__(self) -> str:
        """Print the points."""
        return " ".join(f"({t:g}, {s:g})" for t, s in self.points)

    @property
    def costs(self) -> list[float]:
        """List the time that each operator takes for one whole unit of its input."""
        return [(b[0] - a[0]) / a[1] for a, b in pairwise(self.points)]

    @property
    def selectivities(self) -> list[float]:
        """List how much each operator lets through."""
        return [b[1] / a[1] for a, b in pairwise(self.points)]


def steepest(points: Sequence[Point], start: int) -> int:
    """Return the steepest descent operator point from a point; of equals, the first (§3)."""
    best, best_slope = start + 1, _slope(points[start], points[start + 1])
    for later in range(start + 2, len(points)):
        slope = _slope(points[start], points[later])
        if slope > best_slope:
            best, best_slope = later, slope
    return best


def envelope(chart: Chart) -> list[int]:
    """List the numbers of the points on the lower envelope."""
    found = [0]
    while found[-1] < len(chart.points) - 1:
        found.append(steepest(chart.points, found[-1]))
    return found


def slopes(chart: Chart, below: float = 0.0) -> list[float]:
    """Return each operator's slope on the lower envelope; segments flatter than ``below`` are joined to one (§5.3)."""
    corners = envelope(chart)
    if below > 0.0:
        flat = [i for i, j in pairwise(corners) if _slope(chart.points[i], chart.points[j]) < below]
        corners = [c for c in corners if not flat or c <= flat[0]]
        corners += [len(chart.points) - 1] * (corners[-1] != len(chart.points) - 1)
    found: list[float] = []
    for i, j in pairwise(corners):
        found += [_slope(chart.points[i], chart.points[j])] * (j - i)
    return found


def _slope(start: Point, end: Point) -> float:
    """Return how much size a unit of time takes away."""
    return (start[1] - end[1]) / (end[0] - start[0])
