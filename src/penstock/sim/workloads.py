"""Draws the queries of the papers' experiments from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from penstock.sim.network import Operator, SimQuery

SELECT, JOIN, PROJECT = range(3)
STEPS: Final = 100  # values are whole numbers from 1 to 100 (Sharaf 2007, §3.7)


def scaled(costs: Sequence[float], utilization: float, gap: float) -> float:
    """Return the factor K that makes all expected work of one tuple the given share of the time between two."""
    return utilization * gap / float(sum(costs))


def three_operators(
    queries: int, seed: int, utilization: float, gap: float, *, highest: float = 1.0, one_cost: bool = False
) -> list[SimQuery]:
    """Draw select, join with a table, and project: one cost class and one selectivity a query (S07 §3.7)."""
    draw = np.random.default_rng([seed, 1])
    lowest = 0.1
    chances = np.round(draw.uniform(lowest, highest, queries), 2)
    costs = np.ones(queries) if one_cost else 2.0 ** draw.integers(0, 5, queries)
    unit = scaled([c * (1 + s + s * s) for c, s in zip(costs, chances, strict=True)], utilization, gap)
    found = []
    for number, (cost, chance) in enumerate(zip(costs * unit, chances, strict=True)):
        steps = Operator(cost, chance, SELECT), Operator(cost, chance, JOIN), Operator(cost, 1.0, PROJECT)
        found.append(SimQuery(f"q{number}", steps))
    return found
