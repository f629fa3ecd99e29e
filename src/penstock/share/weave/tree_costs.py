"""Keeps the trees of a plan with their costs, and compares, merges and splits them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from penstock.model.arrays import FloatArray
from penstock.share.weave.costs import Costs
from penstock.share.weave.edge_sets import EdgeSets
from penstock.share.weave.plan_queries import Places, PlanQuery, WovenTrees


class TreeCosts:
    """Trees in rows; by default row i begins as the tree of query i alone. ``comparisons`` counts pairs looked at."""

    def __init__(
        self,
        woven_queries: Sequence[PlanQuery],
        costs: Costs,
        trees: Collection[Iterable[int]] | None = None,
        spare: int = 0,
    ) -> None:
        """Lay out trees of queries by number, with room for some queries more."""
        self.woven_queries = list(woven_queries)
        self.comparisons = 0
        self.crowd = 0.0  # groups that trees fill at a time, once they stand beside each other
        self._most = len(self.woven_queries) + spare  # queries
        rows = max(1, (len(self.woven_queries) if trees is None else len(trees)) + spare)
        self._edges = EdgeSets((s.window for s in self.woven_queries), rows)
        self._weighing = costs.weighing(self.woven_queries, rows)
        self.members: list[list[int]] = [[] for _ in range(rows)]
        self.lanes: list[set[tuple[int, int]]] = [set() for _ in range(rows)]  # of these queries
        self.costs = np.zeros(rows)
        for row, members in enumerate([[i] for i in range(len(self.woven_queries))] if trees is None else trees):
            self.hold(row, members)

    def takes(self, woven_query: PlanQuery) -> bool:
        """Tell whether there is room for a query."""
        room = len(self.woven_queries) < self._most
        return room and self._edges.knows([woven_query.window]) and self._weighing.knows(woven_query)

    def enter(self, woven_query: PlanQuery) -> int:
        """Add a query as a tree of its own; return the tree's row."""
        self.woven_queries.append(woven_query)
        row = next(row for row, members in enumerate(self.members) if not members)
        self.hold(row, [len(self.woven_queries) - 1])
        return row

    @property
    def alive(self) -> Places:
        """Return the rows that hold a tree, in order."""
        return np.array([row for row, members in enumerate(self.members) if members], np.int64)

    def hold(self, row: int, members: Iterable[int]) -> None:
        """Let a row be the tree of just these queries."""
        self.members[row] = list(members)
        held = [self.woven_queries[i] for i in self.members[row]]
        self.lanes[row] = {s.lane for s in held}
        self._edges.put(row, (s.window for s in held))
        self._weighing.put(row, held)
        self._price(row)

    def rates(self, rows: Places) -> FloatArray:
        """Return the edges per second of trees."""
        return self._edges.rates(rows)

    def reductions(self, row: int, others: Places) -> FloatArray:
        """Return by how much merging a tree with each of some others would lower the cost (Eq. 5)."""
        self.comparisons += len(others)
        merged = self._weighing.merged(row, others, self._edges.together(row, others))
        found: FloatArray = self.costs[row] + self.costs[others] - merged
        return found

    def merge(self, row: int, other: int) -> None:
        """Put another tree's queries into a tree."""
        self._edges.merge(row, other)
        self._weighing.merge(row, other)
        self.members[row] += self.members[other]
        self.lanes[row] |= self.lanes[other]
        self.members[other], self.lanes[other] = [], set()
        self.costs[other] = 0.0
        self._price(row)

    def stand(self) -> None:
        """Price trees as they are beside each other."""
        alive, before = self.alive, self.crowd
        self.crowd = self._weighing.stand(self.rates(alive), alive)
        for row in alive.tolist() if self.crowd != before else ():
            self._price(row)

    def woven(self) -> WovenTrees:
        """Return the trees as a plan."""
        rows = self.alive.tolist()
        trees = tuple(tuple(sorted(self.members[row])) for row in rows)
        return WovenTrees(trees, tuple(float(self.costs[row]) for row in rows), self.comparisons)

    def _price(self, row: int) -> None:
        """Compute a tree's cost."""
        at = np.array([row])
        filled = bool(self.members[row])
        self.costs[row] = self._weighing.costs(self._edges.rates(at), at)[0] if filled else 0.0


def beside(
    woven_queries: Sequence[PlanQuery], costs: Costs, trees: Collection[Iterable[int]] | None = None, spare: int = 0
) -> TreeCosts:
    """Lay out trees, priced as they are beside each other."""
    tree_costs = TreeCosts(woven_queries, costs, trees, spare)
    tree_costs.stand()
    return tree_costs
