"""Plans trees by the other methods that Weave Share is compared with (Guirguis et al. 2011, §6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from penstock.errors import Unsupported
from penstock.share.weave.costs import Costs
from penstock.share.weave.edge_sets import EdgeSets
from penstock.share.weave.plan_queries import PlanQuery, WovenTrees
from penstock.share.weave.tree_costs import TreeCosts
from penstock.share.weave.weaving import weave

MOST_EXHAUSTED: Final = 12  # strands: four million set partitions, reached by 3ⁿ steps


def no_share(strands: Sequence[PlanQuery], costs: Costs) -> WovenTrees:
    """Give every strand a tree of its own."""
    return TreeCosts(strands, costs).woven()


def share_all(strands: Sequence[PlanQuery], costs: Costs) -> WovenTrees:
    """Put all strands into one tree: Shared."""
    return TreeCosts(strands, costs, [range(len(strands))]).woven()


def share_at_random(strands: Sequence[PlanQuery], costs: Costs, seed: int) -> WovenTrees:
    """Put strands at random into a random number of trees."""
    return TreeCosts(strands, costs, random_trees(len(strands), seed)).woven()


def random_trees(count: int, seed: int) -> list[list[int]]:
    """Draw a number of trees, and a tree for each strand."""
    draw = np.random.default_rng(seed)
    chosen = draw.integers(0, draw.integers(1, count + 1), count)
    return [np.flatnonzero(chosen == tree).tolist() for tree in np.unique(chosen)]


def insert_then_weave(strands: Sequence[PlanQuery], costs: Costs) -> WovenTrees:
    """Insert strands one by one into the tree they weave best with, then weave the trees."""
    tree_costs = TreeCosts(strands, costs)
    rows: list[int] = []
    for row in range(len(strands)):
        others = np.array(rows, np.int64)
        saved = tree_costs.reductions(row, others)
        if len(saved) and saved.max() > 0:
            tree_costs.merge(int(others[saved.argmax()]), row)
        else:
            rows.append(row)
    weave(tree_costs)
    return tree_costs.woven()


def local_search(
    strands: Sequence[PlanQuery], costs: Costs, steps: int, seed: int, trees: Sequence[Sequence[int]] | None = None
) -> WovenTrees:
    """Move strands one by one, drawn at random, where they cost least; begin with No Share or with trees."""
    draw, tree_costs = np.random.default_rng(seed), TreeCosts(strands, costs, trees)
    home = {strand: row for row, members in enumerate(tree_costs.members) for strand in members}
    for strand in draw.integers(0, len(strands), steps).tolist():
        row = home[strand]
        rest = [other for other in tree_costs.members[row] if other != strand]
        free = next(r for r, members in enumerate(tree_costs.members) if not members) if rest else row
        if rest:
            tree_costs.hold(row, rest)
            tree_costs.hold(free, [strand])
        others = tree_costs.alive[tree_costs.alive != free]
        saved = tree_costs.reductions(free, others)
        home[strand] = free
        if len(saved) and saved.max() > 0:
            home[strand] = int(others[saved.argmax()])
            tree_costs.merge(home[strand], free)
    return tree_costs.woven()


def exhaustive(
    strands: Sequence[PlanQuery], costs: Costs, classes: Sequence[Sequence[int]] | None = None
) -> WovenTrees:
    """Find the cheapest of all set partitions: a tree for the first strand left, and the best of the rest.

    Where classes of strands are given, these are parted, and each stays whole.
    """
    classes = [[i] for i in range(len(strands))] if classes is None else classes
    if len(classes) > MOST_EXHAUSTED:
        what = f"all plans of {len(classes)} queries cannot be tried"
        raise Unsupported(what, detail=f"at most {MOST_EXHAUSTED} can", hint="Use Weave Share.")
    prices = _prices(strands, costs, classes)
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]  # of every set of strands
    for wanted in range(1, len(prices)):
        first = wanted & -wanted
        found: tuple[float, tuple[int, ...]] = (float("inf"), ())
        others = rest = wanted ^ first
        while True:  # over all subsets of the others
            tree = first | rest
            cost, trees = best[wanted ^ tree]
            if prices[tree] + cost < found[0]:
                found = (prices[tree] + cost, (tree, *trees))
            if not rest:
                break
            rest = (rest - 1) & others
        best.append(found)
    chosen = best[-1][1]
    members = (sorted(i for n, part in enumerate(classes) if tree >> n & 1 for i in part) for tree in chosen)
    return WovenTrees(tuple(map(tuple, members)), tuple(prices[tree] for tree in chosen), len(prices) - 1)


def _prices(strands: Sequence[PlanQuery], costs: Costs, classes: Sequence[Sequence[int]]) -> list[float]:
    """Return what each set of classes costs as one tree, by its bits."""
    sets = 1 << len(classes)
    edges, weighing = EdgeSets((s.window for s in strands), sets), costs.weighing(strands, sets)
    for one in range(1, sets):
        first = [strands[i] for i in classes[(one & -one).bit_length() - 1]]
        edges.put(one, [strand.window for strand in first])
        weighing.put(one, first)
        if one & (one - 1):
            edges.merge(one, one & (one - 1))
            weighing.merge(one, one & (one - 1))
    rows = np.arange(sets)
    return [float(price) for price in weighing.costs(edges.rates(rows), rows)]
