"""Runs Weave Share as the paper writes it, and counts every operation.

Guirguis et al. (2011), Figure 2 and §8: the loops over all pairs of trees, where common edges are counted by checking
each edge of each query of one tree against each query of the other. The three optimizations can be switched on one by
one; all of them lead to the same plan. This is the twin of `weaving.py`, for small workloads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.model.arrays import Int64Array
from penstock.model.duration import SECOND
from penstock.share.slices import Progression, edges_of
from penstock.share.weave.costs import Costs, Weighing
from penstock.share.weave.density import GranuleScale, scale_of
from penstock.share.weave.plan_queries import PlanQuery, WovenTrees


@dataclass(frozen=True, slots=True)
class Optimizations:
    """Which optimizations of §8 are used."""

    lookup: bool = False  # what merging a pair saves is computed once (§8.1)
    bitmap: bool = False  # edges are looked up, not compared query by query (§8.2)
    probing: bool = False  # the tree with fewer edges probes the other (§8.3)


@dataclass(slots=True)
class _NaiveTree:
    """A tree by its row among the costs: the edges of its queries, and how many distinct ones."""

    row: int
    members: list[int]
    edges: list[tuple[Progression, ...]]  # of each member
    slide: int  # composite
    count: int  # distinct edges in it

    def listed(self, period: int) -> Int64Array:
        """List the distinct edges of a period, 1 … period."""
        return np.unique(np.concatenate([_edges(each, period) for each in self.edges]))


@dataclass(slots=True)
class Naive:
    """The algorithm with its count of operations: comparisons of edges, or probes and insertions of bitmaps."""

    woven_queries: Sequence[PlanQuery]
    costs: Costs
    how: Optimizations = field(default_factory=Optimizations)
    operations: int = 0
    comparisons: int = 0

    def run(self) -> WovenTrees:
        """Merge the best pair of trees until no merge lowers the cost."""
        weighing = self.costs.weighing(self.woven_queries, len(self.woven_queries))
        trees = self._alone(weighing)
        unit = self._scale().granule
        known: dict[tuple[int, int], tuple[float, int]] = {}
        while True:
            best, pair, common = 0.0, None, 0
            for i, first in enumerate(trees):
                for second in trees[i + 1 :]:
                    saved = known.get((first.row, second.row)) if self.how.lookup else None
                    if saved is None:
                        saved = known[first.row, second.row] = self._reduction(first, second, weighing, unit)
                    if saved[0] > best:
                        best, pair, common = saved[0], (first, second), saved[1]
            if pair is None:
                costs = tuple(self._cost(tree, weighing, unit) for tree in trees)
                return WovenTrees(tuple(tuple(sorted(t.members)) for t in trees), costs, self.comparisons)
            self._merge(*pair, common, weighing)
            trees.remove(pair[1])
            known = {rows: saved for rows, saved in known.items() if not {t.row for t in pair} & set(rows)}

    def _alone(self, weighing: Weighing) -> list[_NaiveTree]:
        """Make a tree of each query."""
        scale, trees = self._scale(), []
        for row, woven_query in enumerate(self.woven_queries):
            edges = tuple(scale.within(p) for p in edges_of(woven_query.window, "paired"))
            weighing.put(row, [woven_query])
            trees.append(_NaiveTree(row, [row], [edges], edges[0].step, len(edges)))
        return trees

    def _scale(self) -> GranuleScale:
        """Count time in granules."""
        return scale_of(p for s in self.woven_queries for p in edges_of(s.window, "paired"))

    def _cost(self, tree: _NaiveTree, weighing: Weighing, unit: int) -> float:
        """Return a tree's cost."""
        rate = np.array([tree.count * SECOND / (tree.slide * unit)])
        return float(weighing.costs(rate, np.array([tree.row]))[0])

    def _reduction(self, first: _NaiveTree, second: _NaiveTree, weighing: Weighing, unit: int) -> tuple[float, int]:
        """Return what merging two trees saves (Eq. 5), and their common edges."""
        self.comparisons += 1
        slide = math.lcm(first.slide, second.slide)
        common = self._common(first, second, slide)
        edges = sum(tree.count * (slide // tree.slide) for tree in (first, second)) - common
        rate = np.array([edges * SECOND / (slide * unit)])
        merged = float(weighing.merged(first.row, np.array([second.row]), rate)[0])
        return self._cost(first, weighing, unit) + self._cost(second, weighing, unit) - merged, common

    def _common(self, first: _NaiveTree, second: _NaiveTree, slide: int) -> int:
        """Count the common edges of two trees in their composite slide."""
        if self.how.bitmap:
            probed, probing = self._ordered(first, second)
            listed, marked = probing.listed(slide), np.zeros(slide + 1, np.bool_)
            marked[probed.listed(slide)] = True
            self.operations += len(listed)
            return int(np.count_nonzero(marked[listed]))
        found = [np.empty(0, np.int64)]
        for theirs in second.edges:
            listed = _edges(theirs, slide)
            for ours in first.edges:  # two comparisons: with the end of a slide, and with the end of its first slice
                hit = np.zeros(len(listed), np.bool_)
                for progression in ours:
                    hit |= (listed - progression.phase) % progression.step == 0
                self.operations += 2 * len(listed)
                found.append(listed[hit])
        return len(np.unique(np.concatenate(found)))

    def _ordered(self, first: _NaiveTree, second: _NaiveTree) -> tuple[_NaiveTree, _NaiveTree]:
        """Return the tree that is probed, then the one that probes."""
        fewer = first.count * second.slide < second.count * first.slide
        return (second, first) if self.how.probing and fewer else (first, second)

    def _merge(self, first: _NaiveTree, second: _NaiveTree, common: int, weighing: Weighing) -> None:
        """Put the second tree into the first."""
        slide = math.lcm(first.slide, second.slide)
        if self.how.bitmap:
            probing = self._ordered(first, second)[1]
            self.operations += probing.count * (slide // probing.slide)
        first.count = sum(tree.count * (slide // tree.slide) for tree in (first, second)) - common
        first.slide = slide
        first.members += second.members
        first.edges += second.edges
        weighing.merge(first.row, second.row)


def _edges(progressions: Sequence[Progression], period: int) -> Int64Array:
    """List the edges of one query in a period, 1 … period."""
    return np.concatenate([p.times(1, period + 1) for p in progressions])
