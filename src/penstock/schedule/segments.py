"""Computes selectivity and cost of every segment of operators, from each operator to its query's end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.schedule.charts import Chart

Array = np.ndarray[Any, Any]
ROOT = -1


@dataclass(frozen=True, slots=True)
class Segments:
    """Flat arrays, one entry an operator: the segment that begins there and ends at its query's root.

    ``after`` is the next operator, or -1 at the root; operators stand before those after them.
    """

    cost: Array  # of the operator, a tuple
    passed: Array  # tuples out for one in, of the operator
    after: Array
    query: Array
    ideal: Array  # T of the query
    weight: Array
    mean_cost: Array  # C with a bar
    selectivity: Array  # S
    remaining: Array  # time from here to the root, if nothing is discarded
    bound: Array  # latency that the query allows
    slide: Array  # of an aggregate, otherwise 0

    def __len__(self) -> int:
        """Count the operators."""
        return len(self.cost)

    def path(self, operator: int) -> list[int]:
        """List the operators from one to its root."""
        found = []
        while operator != ROOT:
            found.append(operator)
            operator = int(self.after[operator])
        return found

    def first_of_query(self, operator: int) -> int:
        """Return the leaf of an operator's path; of several that meet in it, the first."""
        before = np.flatnonzero(self.after == operator)
        return operator if len(before) == 0 else self.first_of_query(int(before[0]))


def summed(cost: Array, passed: Array, after: Array) -> tuple[Array, Array, Array]:
    """Sum up selectivity, expected cost and undiscarded cost from every operator to its root (Sharaf 2007, §2.1)."""
    selectivity, mean_cost, remaining = passed.astype(float), cost.astype(float), cost.astype(float)
    for operator in range(len(cost) - 1, -1, -1):
        follower = after[operator]
        if follower != ROOT:
            selectivity[operator] = passed[operator] * selectivity[follower]
            mean_cost[operator] = cost[operator] + passed[operator] * mean_cost[follower]
            remaining[operator] = cost[operator] + remaining[follower]
    return selectivity, mean_cost, remaining


def chart_of(segments: Segments, leaf: int) -> Chart:
    """Draw the progress chart of a path: costs are for what is left of one unit, and the root lets nothing stay."""
    points, time, size = [(0.0, 1.0)], 0.0, 1.0
    path = segments.path(leaf)
    for operator in path:
        time += float(segments.cost[operator]) * size
        size = 0.0 if operator == path[-1] else size * float(segments.passed[operator])
        points.append((time, size))
    return Chart(tuple(points))


def leaves(segments: Segments) -> list[int]:
    """List the operators that no other feeds."""
    fed = set(segments.after.tolist())
    return [operator for operator in range(len(segments)) if operator not in fed]
