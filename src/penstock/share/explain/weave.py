"""Explains each woven tree's weaveability, cost and saving, and why it stands alone.

Weaveability is that of Guirguis et al. (2011, Definition 1); of a tree with several windows it is the mean share of
edges that one more window has in common with all: 1 where all windows have the same edges, 0 where none are shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.printable import shown
from penstock.share.plan import Plan, Tree
from penstock.share.weave.density import edge_rate, weaveability
from penstock.share.weave.queries import Numbers, WovenSoFar
from penstock.share.weave.tree_costs import TreeCosts, beside

MICROS = 1e6


@dataclass(frozen=True, slots=True)
class Apart:
    """Another tree, what the two have in common, and what merging them would cost more, in seconds a second."""

    tree: str
    weaveability: float
    dearer: float

    def __str__(self) -> str:
        """Word why the two are not one."""
        common = f"{self.weaveability:.0%} of their edges are common"
        other = shown(self.tree)
        return f"not merged with {other}: {common}, one tree would cost {self.dearer * MICROS:+,.1f} µs a second"

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return {"tree": self.tree, "weaveability": self.weaveability, "dearer_seconds": self.dearer}


@dataclass(frozen=True, slots=True)
class WeavePlan:
    """What weaving knows of one tree; costs are seconds of work a second of event time."""

    weaveability: float
    edges_per_second: float
    edges_error: float  # at 99.9 %; 0: exact
    cost: float
    alone: float  # with every query of it alone
    apart: tuple[Apart, ...]  # the other trees, those that would be cheapest to merge with first

    @property
    def saving(self) -> float:
        """Return how many times less work the tree is than its queries alone."""
        return self.alone / self.cost if self.cost else 1.0

    def lines(self) -> list[str]:
        """Word it for people."""
        error = f" ± {self.edges_error:.2g}" if self.edges_error else ""
        cost = f"{self.cost * MICROS:,.1f} µs a second, {self.saving:,.1f} times less than its queries alone"
        words = f"weaveability {self.weaveability:.2f}, edge rate {self.edges_per_second:.4g}{error}, cost {cost}"
        return [words, *(str(one) for one in self.apart[:2])]

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return {
            "weaveability": self.weaveability,
            "edges_per_second": self.edges_per_second,
            "edges_error": self.edges_error,
            "cost_seconds": self.cost,
            "alone_seconds": self.alone,
            "saving": self.saving,
            "apart": [one.to_dict() for one in self.apart],
        }


def explain_weave(plan: Plan, standing: WovenSoFar) -> dict[str, WeavePlan]:
    """Weigh every tree of a plan, by name."""
    numbers, rows = Numbers(), list[list[int]]()
    definitions = plan.definitions
    place = {d.id: i for i, d in enumerate(definitions)}
    for tree in plan.trees:
        rows.append([place[d.id] for d in tree.definitions])
    woven_queries = [numbers.woven_query(d) for d in definitions]
    if not woven_queries:
        return {}
    costs = numbers.costs(standing.rates, standing.seen)
    tree_costs, alone = beside(woven_queries, costs, rows), beside(woven_queries, costs)
    return {
        tree.name: _weighed(tree, row, plan, tree_costs, float(alone.costs[rows[row]].sum()))
        for row, tree in enumerate(plan.trees)
    }


def _weighed(tree: Tree, row: int, plan: Plan, tree_costs: TreeCosts, alone: float) -> WeavePlan:
    """Weigh one tree."""
    windows = tuple(dict.fromkeys(tree.windows))
    rate = edge_rate(windows)
    others = np.array([other for other in range(len(plan.trees)) if other != row], np.int64)
    dearer = -tree_costs.reductions(row, others) if len(others) else np.empty(0)
    apart = [
        Apart(plan.trees[other].name, weaveability(tree.windows, plan.trees[other].windows), float(dearer[i]))
        for i, other in sorted(enumerate(others.tolist()), key=lambda one: dearer[one[0]])[:4]
    ]
    cost = float(tree_costs.costs[row])
    return WeavePlan(_of_all(windows, rate.value), rate.value, rate.error, cost, alone, tuple(apart))


def _of_all(windows: Sequence[Any], rate: float) -> float:
    """Return the mean share of edges that windows have in common with all the others of their tree."""
    if len(windows) < 2:
        return 1.0
    apart = sum(edge_rate([window]).value for window in windows)
    return max(0.0, apart - rate) / ((len(windows) - 1) * rate)
