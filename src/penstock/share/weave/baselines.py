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

MOST_EXHAUSTED: Final = 12  # queries: four million set partitions, reached by 3ⁿ steps


def no_share(woven_queries: Sequence[PlanQuery], costs: Costs) -> WovenTrees:
    """Give every query a tree of its own."""
    return TreeCosts(woven_queries, costs).woven()


def share_all(woven_queries: Sequence[PlanQuery], costs: Costs) -> WovenTrees:
    """Put all queries into one tree: Shared."""
    return TreeCosts(woven_queries, costs, [range(len(woven_queries))]).woven()


def share_at_random(woven_queries: Sequence[PlanQuery], costs: Costs, seed: int) -> WovenTrees:
    """Put queries at random into a random number of trees."""
    return TreeCosts(woven_queries, costs, random_trees(len(woven_queries), seed)).woven()


def random_trees(count: int, seed: int) -> list[list[int]]:
    """Draw a number of trees, and a tree for each query."""
    draw = np.random.default_rng(seed)
    chosen = draw.integers(0, draw.integers(1, count + 1), count)
    return [np.flatnonzero(chosen == tree).tolist() for tree in np.unique(chosen)]


def insert_then_weave(woven_queries: Sequence[PlanQuery], costs: Costs) -> WovenTrees:
    """Insert queries one by one into the tree they weave best with, then weave the trees."""
    tree_costs = TreeCosts(woven_queries, costs)
    rows: list[int] = []
    for row in range(len(woven_queries)):
        others = np.array(rows, np.int64)
        saved = tree_costs.reductions(row, others)
        if len(saved) and saved.max() > 0:
            tree_costs.merge(int(others[saved.argmax()]), row)
        else:
            rows.append(row)
    weave(tree_costs)
    return tree_costs.woven()


def local_search(
    woven_queries: Sequence[PlanQuery],
    costs: Costs,
    steps: int,
    seed: int,
    trees: Sequence[Sequence[int]] | None = None,
) -> WovenTrees:
    """Move queries one by one, drawn at random, where they cost least; begin with No Share or with trees."""
    room = 0 if trees is None else len(woven_queries) - len(trees)  # a query may get a tree of its own
    draw, tree_costs = np.random.default_rng(seed), TreeCosts(woven_queries, costs, trees, room)
    home = {woven_query: row for row, members in enumerate(tree_costs.members) for woven_query in members}
    for woven_query in draw.integers(0, len(woven_queries), steps).tolist():
        row = home[woven_query]
        rest = [other for other in tree_costs.members[row] if other != woven_query]
        free = next(r for r, members in enumerate(tree_costs.members) if not members) if rest else row
        if rest:
            tree_costs.hold(row, rest)
            tree_costs.hold(free, [woven_query])
        others = tree_costs.alive[tree_costs.alive != free]
        saved = tree_costs.reductions(free, others)
        home[woven_query] = free
        if len(saved) and saved.max() > 0:
            home[woven_query] = int(others[saved.argmax()])
            tree_costs.merge(home[woven_query], free)
    return tree_costs.woven()


def exhaustive(
    woven_queries: Sequence[PlanQuery], costs: Costs, classes: Sequence[Sequence[int]] | None = None
) -> WovenTrees:
    """Find the cheapest of all set partitions: a tree for the first query left, and the best of the rest.

    Where classes of queries are given, these are parted, and each stays whole.
    """
    classes = [[i] for i in range(len(woven_queries))] if classes is None else classes
    if len(classes) > MOST_EXHAUSTED:
        what = f"all plans of {len(classes)} queries cannot be tried"
        raise Unsupported(what, detail=f"at most {MOST_EXHAUSTED} can", hint="Use Weave Share.")
    prices = _prices(woven_queries, costs, classes)
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]  # of every set of queries
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


def _prices(woven_queries: Sequence[PlanQuery], costs: Costs, classes: Sequence[Sequence[int]]) -> list[float]:
    """Return what each set of classes costs as one tree, by its bits."""
    sets = 1 << len(classes)
    edges, weighing = EdgeSets((s.window for s in woven_queries), sets), costs.weighing(woven_queries, sets)
    for one in range(1, sets):
        first = [woven_queries[i] for i in classes[(one & -one).bit_length() - 1]]
        edges.put(one, [woven_query.window for woven_query in first])
        weighing.put(one, first)
        if one & (one - 1):
            edges.merge(one, one & (one - 1))
            weighing.merge(one, one & (one - 1))
    rows = np.arange(sets)
    return [float(price) for price in weighing.costs(edges.rates(rows), rows)]
