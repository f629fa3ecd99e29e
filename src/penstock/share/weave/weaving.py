"""Runs Weave Share: merges the pair of trees that saves the most, until no merge lowers the cost.

Guirguis, Sharaf, Chrysanthis and Labrinidis (2011), Figure 2, with the cost lookup of §8.1 and the edge bitmap of §8.2:
all comparisons of one tree with all others are a few operations on arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from penstock.model.arrays import FloatArray
from penstock.share.weave.costs import Costs
from penstock.share.weave.plan_queries import PlanQuery, WovenTrees
from penstock.share.weave.tree_costs import TreeCosts

Watch = Callable[[TreeCosts, int, int], None]


def weave_share(
    woven_queries: Sequence[PlanQuery], costs: Costs, trees: Collection[Iterable[int]] | None = None
) -> WovenTrees:
    """Merge the two trees that lower the cost the most, until none do (Figure 2).

    At first every query is a tree of its own, unless trees that are to stay whole are given.
    """
    if not woven_queries:
        return WovenTrees((), ())
    tree_costs = TreeCosts(woven_queries, costs, trees)
    weave(tree_costs)
    return tree_costs.woven()


def weave(tree_costs: TreeCosts, watch: Watch | None = None) -> None:
    """Weave the trees of a board; ``watch`` is told of every merge.

    The first of equally good pairs in their order is taken, as the naive loops do.
    """
    table = _lookup(tree_costs)
    best = table.max(axis=1)  # of each tree with later ones
    while True:
        first = int(best.argmax())
        if not best[first] > 0:
            return
        second = int(table[first].argmax())
        if watch is not None:
            watch(tree_costs, first, second)
        tree_costs.merge(first, second)
        _forget(table, best, second)
        _renew(tree_costs, table, best, first)


def _lookup(tree_costs: TreeCosts) -> FloatArray:
    """Compute what merging each pair of trees would save: the cost lookup table of §8.1, its upper half."""
    rows, alive = len(tree_costs.members), tree_costs.alive
    table = np.full((rows, rows), -np.inf)
    for place, row in enumerate(alive):
        table[row, alive[place + 1 :]] = tree_costs.reductions(int(row), alive[place + 1 :])
    return table


def _forget(table: FloatArray, best: FloatArray, gone: int) -> None:
    """Take a tree out of the table."""
    led = np.flatnonzero(table[:, gone] == best)
    table[:, gone] = table[gone] = -np.inf
    best[gone] = -np.inf
    best[led] = table[led].max(axis=1)


def _renew(tree_costs: TreeCosts, table: FloatArray, best: FloatArray, row: int) -> None:
    """Compute the entries of a tree that was just merged anew."""
    alive = tree_costs.alive
    others = alive[alive != row]
    found = tree_costs.reductions(row, others)
    before, after = others < row, others > row
    table[row, others[after]] = found[after]
    best[row] = found[after].max(initial=-np.inf)
    rows, led = others[before], table[others[before], row] == best[others[before]]
    table[rows, row] = found[before]
    best[rows] = np.maximum(best[rows], found[before])
    fallen = rows[led]
    best[fallen] = table[fallen].max(axis=1)
