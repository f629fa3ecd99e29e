"""Counts the operations that a run of Weave Share takes with none, one, two and all optimizations.

The counts are those that `naive.py` makes one by one (Guirguis et al. 2011, §8), computed from edge counts alone: with
250 queries the written loops would take days.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.model.arrays import FloatArray
from penstock.model.duration import SECOND
from penstock.share.slices import edges_of
from penstock.share.weave.costs import Costs
from penstock.share.weave.density import scale_of
from penstock.share.weave.plan_queries import Places, PlanQuery, WovenTrees
from penstock.share.weave.tree_costs import TreeCosts
from penstock.share.weave.weaving import weave

STEPS: Final = ("naive", "cost lookup", "edge bitmap", "probing order")


@dataclass(frozen=True, slots=True)
class Counted:
    """Operations as optimizations are added one by one, in the order of `STEPS`."""

    woven: WovenTrees
    operations: tuple[float, ...]

    @property
    def saving(self) -> float:
        """Return how many times fewer operations all three take together."""
        return self.operations[0] / self.operations[-1]


class Tally:
    """Sums of operations while trees are merged."""

    def __init__(self, woven_queries: Sequence[PlanQuery]) -> None:
        """Count time in granules; every query begins as a tree."""
        edges = [edges_of(s.window, "paired") for s in woven_queries]
        self._granule = scale_of(p for each in edges for p in each).granule
        self._slides = np.array([each[0].step // self._granule for each in edges], np.int64)
        self._sizes = np.ones(len(woven_queries))
        self._written = np.array([len(each) for each in edges]) / self._slides  # edges a granule, repeated ones too
        self.sums = np.zeros(4)
        self._first = True

    def see(self, tree_costs: TreeCosts) -> None:
        """Add what an iteration over all pairs of trees takes."""
        rows = tree_costs.alive
        written, probes, fewest = self._pairs(tree_costs, rows, rows)
        later = np.triu(np.ones_like(written), 1)
        self.sums[0] += (written * later).sum()
        if self._first:
            self.sums[1:] += [(part * later).sum() for part in (written, probes, fewest)]
        self._first = False

    def merge(self, tree_costs: TreeCosts, first: int, second: int) -> None:
        """Add what a merge takes, and the pairs that have to be computed again after it (§8.1)."""
        slide = np.lcm(self._slides[first], self._slides[second])
        _, probes, fewest = self._pairs(tree_costs, np.array([first]), np.array([second]))
        self.sums[2:] += probes[0, 0], fewest[0, 0]
        tree_costs.merge(first, second)
        self._slides[first] = slide
        self._sizes[first] += self._sizes[second]
        self._written[first] += self._written[second]
        rows = tree_costs.alive
        before, after = rows[rows < first], rows[rows > first]
        for ours, theirs in ((before, np.array([first])), (np.array([first]), after)):
            self.sums[1:] += [part.sum() for part in self._pairs(tree_costs, ours, theirs)]

    def _pairs(self, tree_costs: TreeCosts, ours: Places, theirs: Places) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return for pairs of trees the comparisons as written, the probes, and the probes of the smaller tree."""
        slides = np.lcm.outer(self._slides[ours], self._slides[theirs]).astype(np.float64)
        written = 2 * np.outer(self._sizes[ours], self._written[theirs]) * slides
        first, second = (tree_costs.rates(rows) * self._granule / SECOND for rows in (ours, theirs))
        return written, second * slides, np.minimum.outer(first, second) * slides


def counted_weave(woven_queries: Sequence[PlanQuery], costs: Costs) -> Counted:
    """Weave, and count what it would have taken at each stage of optimization."""
    tree_costs, tally = TreeCosts(woven_queries, costs), Tally(woven_queries)
    shadow = TreeCosts(woven_queries, costs)
    tally.see(shadow)

    def watch(_: TreeCosts, first: int, second: int) -> None:
        tally.merge(shadow, first, second)
        tally.see(shadow)

    weave(tree_costs, watch)
    return Counted(tree_costs.woven(), tuple(np.rint(tally.sums).tolist()))
