"""Keeps a woven plan up to date while queries come and go, and tells when to weave it from scratch.

Incremental Weave Share (Guirguis et al. 2011, §5.2): a query that comes is merged with the tree it weaves best with, a
tree that loses one is compared with the others, and the plan is woven from scratch only when its cost leaves the line
through the costs of the last plans woven so by more than a tolerance (Eq. 6).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeVar

import numpy as np

from penstock.share.weave.baselines import share_all
from penstock.share.weave.costs import Costs
from penstock.share.weave.plan_queries import PlanQuery, WovenTrees
from penstock.share.weave.tree_costs import TreeCosts, beside
from penstock.share.weave.weaving import weave_share

TOLERANCE: Final = 0.2  # 20 to 30 % balance quality and work (§7.2)
REMEMBERED: Final = 8  # plans woven from scratch
APART: Final = 0.8  # of the queries of another plan are clearly fewer
CROWDING: Final = 0.05  # by which trees are dearer beside each other before they are woven once more
FEW_LANES: Final = 64  # that are woven one by one
SPARE: Final = 64  # queries for which a board has room when it is laid out
Name = TypeVar("Name", bound=Hashable)


@dataclass(slots=True)
class CostCurve:
    """Costs of plans woven from scratch, by their number of queries: what a plan should cost."""

    points: list[tuple[int, float]] = field(default_factory=list)

    def note(self, woven_queries: int, cost: float) -> None:
        """Add a plan; of two with as many queries the later one counts."""
        self.points = [*(p for p in self.points if p[0] != woven_queries), (woven_queries, cost)][-REMEMBERED:]

    def expected(self, woven_queries: int) -> float:
        """Extrapolate along the performance slope; a single plan is scaled.

        The slope is that from the last plan to the latest one of clearly fewer or more queries: between two plans
        nearly alike it would be left to chance.
        """
        known, cost = self.points[-1]
        others = [p for p in self.points[:-1] if not APART < p[0] / max(1, known) < 1 / APART]
        if not others:
            return cost * woven_queries / max(1, known)
        before, less = others[-1]
        return max(cost + (cost - less) / (known - before) * (woven_queries - known), 1e-12)

    def strayed(self, woven_queries: int, cost: float, tolerance: float) -> bool:
        """Tell whether a cost is above the line by more than the tolerance (Eq. 6)."""
        return bool(self.points) and cost / self.expected(woven_queries) - 1 > tolerance


class IncrementalPlanner(Generic[Name]):
    """A plan that is kept while queries come and go."""

    def __init__(
        self,
        costs: Costs,
        woven_queries: Mapping[Name, PlanQuery] | None = None,
        tolerance: float = TOLERANCE,
        *,
        bound: bool = False,
        curve: CostCurve | None = None,
        fixed: float = 0.0,
        margin: float = 0.0,
    ) -> None:
        """Weave what is there already; ``bound``: queries of one grouping and condition always share a tree.

        Several trees must cost less than one by ``margin``, of their costs and of those that are ``fixed``.
        """
        self.costs, self.tolerance, self.bound = costs, tolerance, bound
        self.fixed, self.margin = fixed, margin
        self.woven_queries: dict[Name, PlanQuery] = dict(woven_queries or {})
        self.curve = CostCurve() if curve is None else curve
        self.reconstructions = 0
        self._compared = 0
        self._names: list[Name] = []
        self._board: TreeCosts | None = None
        if self.woven_queries:
            self.reconstruct()

    @property
    def trees(self) -> tuple[tuple[Name, ...], ...]:
        """List the trees by the names of their queries."""
        if self._board is None:
            return ()
        return tuple(tuple(self._names[i] for i in tree) for tree in self._board.woven().trees)

    @property
    def cost(self) -> float:
        """Return what the plan costs."""
        return 0.0 if self._board is None else self._board.woven().cost

    @property
    def comparisons(self) -> int:
        """Count the pairs of trees that were compared so far."""
        return self._compared + (0 if self._board is None else self._board.comparisons)

    @property
    def owing(self) -> bool:
        """Tell whether the plan should be woven anew."""
        return self.curve.strayed(len(self.woven_queries), self.cost, self.tolerance)

    def add(self, name: Name, woven_query: PlanQuery) -> None:
        """Take a query in: into the tree it weaves best with, and that tree into others while it pays."""
        if self._board is None or not self._board.takes(woven_query):
            trees = [*self.trees, (name,)]
            self.woven_queries[name] = woven_query
            self.lay_out(trees)
            row = len(trees) - 1
        else:
            self.woven_queries[name] = woven_query
            self._names.append(name)
            row = self._board.enter(woven_query)
        self._settle(self._joined(row, woven_query))

    def drop(self, name: Name) -> None:
        """Let a query go, and see whether its tree now weaves with another."""
        del self.woven_queries[name]
        assert self._board is not None
        place = max(i for i, known in enumerate(self._names) if known == name)
        row = next(r for r, members in enumerate(self._board.members) if place in members)
        rest = [i for i in self._board.members[row] if i != place]
        self._board.hold(row, rest)
        if rest:
            self._settle(row)
        else:
            self._board.stand()

    def reconstruct(self) -> None:
        """Weave all queries from scratch, and note the cost; the first time that of half of them, for a slope."""
        if not self.curve.points and len(self.woven_queries) > 3:
            half = [woven_query for i, woven_query in enumerate(self.woven_queries.values()) if i % 2]
            self.curve.note(len(half), self._scratch(half).cost)
        self.adopt(*self.woven())

    def woven(self) -> tuple[tuple[tuple[Name, ...], ...], WovenTrees]:
        """Weave all queries from scratch aside, so that another thread may do it."""
        names = tuple(self.woven_queries)
        woven = self._scratch([self.woven_queries[name] for name in names])
        return tuple(tuple(names[i] for i in tree) for tree in woven.trees), woven

    def _scratch(self, woven_queries: Sequence[PlanQuery]) -> WovenTrees:
        """Weave queries, those that are bound to each other from one tree on; one tree for all, if that costs less.

        The greedy way may end where no two trees are worth merging, and all of them together are.
        """
        bound = _bound(woven_queries) if self.bound else None
        woven = weave_share(woven_queries, self.costs, bound)
        tree_costs = beside(woven_queries, self.costs, woven.trees)
        plans = [replace(tree_costs.woven(), comparisons=woven.comparisons)]
        if plans[0].cost > (1 + CROWDING) * woven.cost:  # each was priced as if it had the machine to itself
            again = weave_share(woven_queries, self.costs.among(tree_costs.crowd), bound)
            found = beside(woven_queries, self.costs, again.trees).woven()
            plans.append(replace(found, comparisons=woven.comparisons + again.comparisons))
        best = min(plans, key=lambda plan: plan.cost)
        together = share_all(woven_queries, self.costs) if self.bound else best
        return together if self._is_enough(together.cost, best.cost) else best

    def _is_enough(self, together: float, best: float) -> bool:
        """Tell whether one tree for all is as good, but for little of all that a batch costs."""
        return together <= best + self.margin * (best + self.fixed)

    def gather(self) -> bool:
        """Put all queries into one tree, unless several cost clearly less; tell whether it was done."""
        if len(self.trees) < 2:
            return False
        together = share_all(list(self.woven_queries.values()), self.costs)
        if enough := self._is_enough(together.cost, self.cost):
            self.lay_out([list(self.woven_queries)])
        return enough

    def adopt(self, trees: Sequence[Sequence[Name]], woven: WovenTrees) -> None:
        """Take over a plan woven from scratch; queries that came meanwhile are taken in, those gone are left out."""
        self.curve.note(sum(map(len, trees)), woven.cost)
        self.reconstructions += 1
        self._compared += woven.comparisons
        kept = [[name for name in tree if name in self.woven_queries] for tree in trees]
        known = {name for tree in kept for name in tree}
        late = [name for name in self.woven_queries if name not in known]
        self.lay_out([*(tree for tree in kept if tree), *((name,) for name in late)])
        for name in late:
            assert self._board is not None
            place = self._names.index(name)
            row = next(r for r, members in enumerate(self._board.members) if place in members)
            self._settle(self._joined(row, self.woven_queries[name]))

    def lay_out(self, trees: Sequence[Sequence[Name]]) -> None:
        """Take trees as they are."""
        self._compared += 0 if self._board is None else self._board.comparisons
        self._names = list(self.woven_queries)
        place = {name: i for i, name in enumerate(self._names)}
        rows = [[place[name] for name in tree] for tree in trees]
        self._board = (
            beside([self.woven_queries[n] for n in self._names], self.costs, rows, SPARE) if self._names else None
        )

    def _joined(self, row: int, woven_query: PlanQuery) -> int:
        """Put a new tree into the one of the same grouping and condition, if those are bound; return its row."""
        tree_costs = self._board
        assert tree_costs is not None
        for other, lanes in enumerate(tree_costs.lanes) if self.bound else ():
            if other != row and woven_query.lane in lanes:
                tree_costs.merge(other, row)
                return other
        return row

    def _settle(self, row: int) -> None:
        """Merge a tree with the one it weaves best with, again and again while it pays."""
        tree_costs = self._board
        assert tree_costs is not None
        while True:
            alive = tree_costs.alive
            others = alive[alive != row]
            saved = tree_costs.reductions(row, others)
            if not len(saved) or not saved.max() > 0:
                break
            into = int(others[np.argmax(saved)])
            tree_costs.merge(into, row)
            row = into
        tree_costs.stand()


def _bound(woven_queries: Sequence[PlanQuery]) -> list[list[int]]:
    """Collect the queries that read the same partials; of many lanes, those of one grouping that are cut alike.

    Where slices and keys are the same, parting lanes saves no partial and costs a copy of every row. Where that leaves
    too many to be woven in time, lanes of a grouping are taken together whose windows have about as many edges.
    """
    lanes: dict[tuple[int, int], list[int]] = {}
    for number, woven_query in enumerate(woven_queries):
        lanes.setdefault(woven_query.lane, []).append(number)
    if len(lanes) <= FEW_LANES:
        return list(lanes.values())
    windows = {lane: frozenset(woven_queries[i].window for i in members) for lane, members in lanes.items()}
    found = _together(lanes, windows)
    finest = {lane: math.log2(min(window.slide for window in some)) for lane, some in windows.items()}
    for steps in (8, 4, 2, 1):  # of which a doubling of slides has so many
        if len(found) <= FEW_LANES:
            break
        found = _together(lanes, {lane: round(steps * fine) for lane, fine in finest.items()})
    return found


def _together(
    lanes: Mapping[tuple[int, int], Sequence[int]], told: Mapping[tuple[int, int], Hashable]
) -> list[list[int]]:
    """Collect the queries of lanes that have the same grouping, and of which the same is told."""
    found: dict[Hashable, list[int]] = {}
    for lane, members in lanes.items():
        found.setdefault((lane[0], told[lane]), []).extend(members)
    return list(found.values())
