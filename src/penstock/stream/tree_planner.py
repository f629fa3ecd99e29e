"""Keeps the woven trees of one stream, while queries come and go and its load changes.

Queries over the same rows under the same keys read the same partials and always share a tree: with the kernel's
prefixes two such trees never cost less than one. So a lane is in one tree at a time, and can move to another with all
that it holds. Weaving from scratch is done by another thread; its plan is taken over between two batches.

All queries are in one tree until the stream has brought something to decide by, and again once the executors keep
groups of it: what they keep is filed by tree, and cannot move.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

from penstock.evaluate.typed import Definition
from penstock.kernel.synopsis import Synopsis
from penstock.model.derived import is_line
from penstock.model.strategy import Strategy
from penstock.share.plan import ONE_TREE, SESSIONS, is_session
from penstock.share.weave.costs import MeasuredCosts, Rates
from penstock.share.weave.incremental import CostCurve, IncrementalPlanner
from penstock.share.weave.queries import WORTH, Numbers, ObservedLoad, WovenSoFar, named, planner_of
from penstock.stream.batch_job import BatchJob
from penstock.stream.grouping_plan import GroupingChooser
from penstock.stream.progress import Progress

LOOKED_EVERY: Final = 8  # batches
MOST_WOVEN: Final = 2_000  # queries; more are in one tree


class TreePlanner:
    """Keeps the trees of one stream."""

    def __init__(
        self,
        strategy: Strategy,
        rates: Rates,
        progress: Progress,
        synopsis: Synopsis,
        computing: BatchJob,
        groupings: GroupingChooser,
    ) -> None:
        """Weave, if that is the strategy, by the engine's rates and by what the stream is seen to bring."""
        self.woven = strategy == "weave" and not is_line(computing.stream.name)  # rows have no rate on their own line
        self.rates, self.groupings = rates, groupings
        self.progress, self.synopsis, self.computing = progress, synopsis, computing
        self.trees: dict[int, str] = {}  # definition → tree
        self._definitions: dict[int, Definition] = {}
        self._numbers = Numbers()
        self.planner: IncrementalPlanner[int] | None = None
        self.known = ObservedLoad()
        self._aside: threading.Thread | None = None
        self._fresh: tuple[IncrementalPlanner[int], ObservedLoad, Numbers] | None = None
        self._priced: tuple[IncrementalPlanner[int], Numbers] | None = (
            None  # the trees as they are, at the prices of now
        )
        self._batches = 0
        self._rows = 0  # of these batches

    @property
    def ready(self) -> bool:
        """Tell whether another plan waits to be taken over: one woven from scratch, or one tree for all."""
        return self._fresh is not None or (self.groupings.outgrown and len(set(self.trees.values())) > 1)

    def trees_of(self, definitions: Sequence[Definition], committed: Mapping[str, str] | None) -> dict[int, str] | None:
        """Return the tree of every query, as a commit had it or as it is woven now; None: trees are not woven.

        Commits name the trees of queries that are not in the one that all begin with; so commits of shared trees fit.
        """
        definitions = [d for d in definitions if not is_session(d)]
        self._definitions = {d.id: d for d in definitions}
        if not self.woven:
            return None
        if committed is None:
            return self.assign(definitions)
        self.trees = {d.id: committed.get(str(d.id), ONE_TREE) for d in definitions}
        return self.trees

    def assign(self, definitions: Sequence[Definition]) -> dict[int, str]:
        """Weave what is new into the trees, and let go what is gone; a waiting plan is taken over."""
        self._definitions = {d.id: d for d in definitions}
        if self._fresh is not None:
            self.planner, self.known, self._numbers = self._fresh
            self._fresh = None
        self._priced = None
        if self._is_one_tree():
            self.planner, self.trees = None, dict.fromkeys(self._definitions, ONE_TREE)
            self.known = ObservedLoad()  # what is in one tree is weighed after the next batch
        else:
            self.planner = self._taken_in(definitions)
            self.trees = named(self.planner.trees, self.trees)
        return self.trees

    def _is_one_tree(self) -> bool:
        """Tell whether there is nothing to decide: nothing was seen, one lane, too many queries, or groups kept apart.

        Where lanes are in one tree and nobody has weighed them yet, that is left to be done aside, after a batch.
        """
        few = self._lanes() < 2 or len(self._definitions) > MOST_WOVEN
        undecided = self.planner is None and len(set(self.trees.values()) | {ONE_TREE}) == 1
        return few or undecided or self.groupings.outgrown

    def _taken_in(self, definitions: Sequence[Definition]) -> IncrementalPlanner[int]:
        """Return the plan with what is new and without what is gone; one tree stays one unless several clearly pay."""
        planner = self.planner
        gone = [] if planner is None else [n for n in planner.woven_queries if n not in self._definitions]
        new = [d for d in definitions if planner is None or d.id not in planner.woven_queries]
        if planner is None or len(new) > len(planner.woven_queries) - len(gone) or not self._numbered(planner, new):
            self.known = self.seen()
            planner, self._numbers = self._woven(self.known)
            return planner
        one = len(planner.trees) == 1
        for number in gone:
            planner.drop(number)
        for definition in new:
            planner.add(definition.id, self._numbers.woven_query(definition))
        if one:
            planner.gather()
        return planner

    def restore(self, definitions: Sequence[Definition]) -> None:
        """Go on with the trees of the last commit."""
        definitions = [d for d in definitions if not is_session(d)]
        self._definitions = {d.id: d for d in definitions}
        if not self.woven or self._is_one_tree():
            return
        self._numbers, self.known = Numbers(self.synopsis.kernel == "scan"), self.seen()
        self.planner = planner_of(definitions, self._numbers, self.rates, self.known)
        by_tree: dict[str, list[int]] = {}
        for definition in definitions:
            by_tree.setdefault(self.trees[definition.id], []).append(definition.id)
        self.planner.lay_out(list(by_tree.values()))

    def look(self) -> None:
        """After a batch, weave anew aside if the plan has strayed or the stream has become another one."""
        self._batches += 1
        self._rows += self.computing.last_rows or 0
        if not self.woven or self.ready or self.groupings.outgrown or self._is_busy():
            return
        if self._lanes() < 2 or len(self._definitions) > MOST_WOVEN:
            return
        self._price_anew()
        often = self._batches <= 2 or self._batches % LOOKED_EVERY == 0
        if (self.planner is not None and self.planner.owing) or (often and self.seen().drifted(self.known)):
            self._aside = threading.Thread(target=self.weave_aside, name="weaving", daemon=True)
            self._aside.start()

    def _is_busy(self) -> bool:
        """Tell whether queries are being woven aside."""
        return self._aside is not None and self._aside.is_alive()

    def _price_anew(self) -> None:
        """Go on with the same trees at the prices they were last held against, if no query came or went since."""
        if self._priced is not None:
            planner, numbers = self._priced
            if planner.woven_queries.keys() == self._definitions.keys():
                self.planner, self._numbers = planner, numbers
            self._priced = None

    def _lanes(self) -> int:
        """Count what may be put into trees of its own."""
        return len({(d.query.keys, d.typed.condition) for d in self._definitions.values()})

    def wait(self) -> None:
        """Wait until what is woven aside is there."""
        if self._aside is not None:
            self._aside.join()

    def seen(self) -> ObservedLoad:
        """Tell what the stream brings: rows and batches a second, groups, how rows fill them, fragments a condition."""
        groups = {key.keys: len(self.synopsis.groups(key)) for key in list(self.synopsis.lanes) if key.tree != SESSIONS}
        conditions = self._lanes()
        sent = self.computing.sent
        fragments = max(0.0, sent.signatures - 1) / conditions if sent is not None and conditions > 1 else 1.0
        rate, counts = self.progress.clock.rate(), {keys: n for keys, n in groups.items() if n}
        batches = (rate or 0.0) * self._batches / max(1, self._rows)
        filled = self.synopsis.filling.groups(counts, max(0.1, fragments))
        rows_sent = None if sent is None else sent.rows > 0
        return ObservedLoad(rate, counts, max(0.1, fragments), batches, filled, rows_sent)

    def standing(self) -> WovenSoFar:
        """Tell all that a plan is explained by."""
        return WovenSoFar(self.seen(), self.rates, dict(self.trees))

    def weave_aside(self) -> None:
        """Weave all queries from scratch, and leave the plan to be taken over, or the one there is, priced anew.

        Another plan is taken over only if it saves some of all that a batch costs.
        """
        definitions, before, known = list(self._definitions.values()), self.planner, self.known
        seen = self.seen()
        planner, numbers = self._woven(seen, None if before is None or seen.drifted(known) else before.curve)
        current = planner_of(definitions, same := Numbers(numbers.scans), self.rates, seen)
        trees = [list(current.woven_queries)] if before is None else before.trees
        current.lay_out([[n for n in tree if n in current.woven_queries] for tree in trees])
        current.curve = planner.curve
        self.known = seen
        if current.cost - planner.cost > WORTH * (planner.cost + planner.fixed):
            self._fresh = planner, seen, numbers
        else:
            self._priced = current, same

    def _woven(self, seen: ObservedLoad, curve: CostCurve | None = None) -> tuple[IncrementalPlanner[int], Numbers]:
        """Weave all queries from scratch; ``curve`` has the costs of plans so far, at much the same prices."""
        numbers = Numbers(self.synopsis.kernel == "scan")
        planner = planner_of(list(self._definitions.values()), numbers, self.rates, seen)
        planner.curve = planner.curve if curve is None else curve
        if planner.woven_queries:
            planner.reconstruct()
        return planner, numbers

    def _numbered(self, planner: IncrementalPlanner[int], new: Sequence[Definition]) -> bool:
        """Tell whether there are numbers for the keys of new queries."""
        assert isinstance(planner.costs, MeasuredCosts)
        coming = {d.query.keys for d in new} - self._numbers.keys.keys()
        return len(self._numbers.keys) + len(coming) <= len(planner.costs.load.groups)
