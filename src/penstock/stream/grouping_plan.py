"""Decides for each batch which groupings are computed from others, and which the executors keep.

A batch is looked at now and then to estimate its partials. Groupings that outgrow the driver are handed to the
executors here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.errors import Unsupported
from penstock.evaluate.typed import Definition
from penstock.kernel.defects import defect_of
from penstock.kernel.synopsis import Synopsis
from penstock.model.schema import Table
from penstock.share.explain.explain import BY_EXECUTORS
from penstock.share.explain.observed import ObservedStream
from penstock.share.grouping_rollup import Estimate, Feeders, Feeding, choose_feeders, from_record
from penstock.share.layout import Layout, lay_out
from penstock.share.plan import SESSIONS, Tree, tree_of
from penstock.spark.job.group_estimates import is_large
from penstock.spark.job.writer import Bounds
from penstock.store.buckets import GroupingName
from penstock.store.commits import Commit, CommitLog
from penstock.stream.batch_job import BatchJob
from penstock.stream.defect_isolation import log_defect
from penstock.stream.due_windows import LOG, DueWindows
from penstock.stream.pauses import pause_by_hand

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MANY_ROWS: Final = 20_000  # of a batch: with fewer, copies of rows cost less than looking at them
PARTIALS_A_GROUP: Final = 20  # in one batch, by slices and predicates, that the driver takes for one group
LOOK_AGAIN: Final = 10  # times the rows that had come at the last look
MANY_BYTES: Final = 4 << 20  # of a first batch, whose rows nobody has counted
TOO_MANY_ROWS: Final = 2_000_000  # of a batch: with fewer, the driver can hold all its groups until they are counted …
TOO_MANY_BYTES: Final = 64 << 20  # … or of a first batch
CANNOT_BE: Final = (
    "its groups are kept by the executors, which do not revise answers, do not compare groups with each other "
    "(DISTINCT, ORDER BY, LIMIT), compute no grouping sets and support not every function"
)


class GroupingChooser:
    """Decides for one stream which groupings feed others, and which are kept by the executors.

    It looks at a batch when the groupings have changed, and again each time ten times as many rows have come as at
    the last look. Where no grouping could feed another, it looks only at batches that the driver could not hold.
    """

    def __init__(self, computing: BatchJob, synopsis: Synopsis, commits: CommitLog, max_driver_groups: int) -> None:
        """Begin with every grouping on its own, in the driver."""
        self.computing, self.synopsis, self.commits, self.max_driver_groups = (
            computing,
            synopsis,
            commits,
            max_driver_groups,
        )
        self.executor_state = computing.executor_state
        self.feeding: Feeding = {}
        self.estimates: Mapping[str, Estimate] = {}  # of the last look, by tree
        self._asked: object = None  # the groupings at the last look
        self._looked_at = 0  # rows that had come
        self._stays: set[GroupingName] = set()  # groupings that outgrew the driver and could not be handed over
        self._waiting = False  # some grouping has outgrown the driver, and is in one of several woven trees

    @property
    def spread(self) -> frozenset[GroupingName]:
        """Name the groupings that the executors keep."""
        return frozenset() if self.executor_state is None else self.executor_state.groupings

    @property
    def outgrown(self) -> bool:
        """Tell whether the executors keep some grouping, or are to do so once all queries are in one tree."""
        return self._waiting or bool(self.spread)

    def recover(self, last: int) -> None:
        """Go on from the last commit."""
        if self.executor_state is not None:
            self.executor_state.store.forget_after(last)
            self.synopsis.spread = self.executor_state.groupings

    def restore(self, commit: Commit) -> None:
        """Let groupings feed each other as they did for a commit."""
        self.feeding = from_record(commit.feeding)

    def laid_out(
        self,
        layout: Layout,
        batch: DataFrame,
        known: Mapping[str, Table],
        judged: Bounds,
        before_hand_over: Callable[[], None],
    ) -> Layout:
        """Lay a plan out for a batch; the batch is looked at first if it is time to.

        ``before_hand_over`` is called before the executors take a grouping over.
        """
        if self._is_time(layout, batch):
            self._look(lay_out(layout.plan, layout.time, None, layout.doubtful), batch, known, judged)
        self._hand_over(layout, before_hand_over)
        asked = {(tree.space, grouping.keys) for tree in layout.plan.trees for grouping in tree.groupings}
        spread, feeding = self.spread & asked, self._without_spread()
        if layout.feeding == feeding and layout.spread == spread:
            return layout
        laid_out = lay_out(layout.plan, layout.time, feeding, layout.doubtful)
        return replace(laid_out, attempts=layout.attempts, spread=spread)

    def seen(self, layout: Layout | None) -> ObservedStream:
        """Say how fast rows came, and how groupings are made where it is not from rows in the driver."""
        found: dict[GroupingName, str] = {}
        for member in layout.members if layout is not None else ():
            tree = layout.plan.trees[member.tree].name if layout is not None else ""
            for fed in member.feeds if len(member.feeds) > 1 else ():
                found[tree, fed.grouping.keys] = f"fed by {', '.join(member.grouping.keys)}"
        found |= dict.fromkeys(layout.spread if layout is not None else (), BY_EXECUTORS)
        return ObservedStream(self.computing.progress.clock.rate(), found, self.computing.families)

    # -- who feeds whom ------------------------------------------------------------------------------------------

    def _is_time(self, layout: Layout, batch: DataFrame) -> bool:
        """Tell whether a look at the batch may pay."""
        several = any(len(tree.groupings) > 1 for tree in layout.plan.trees)
        if layout.attempts or type(self.synopsis) is not Synopsis or not (several or self._unknown(layout)):
            return False
        rows, come = self.computing.last_rows, self.computing.progress.clock.counts.ingested
        if self._asked == _asked(layout) and come < LOOK_AGAIN * self._looked_at:
            return False
        many = (MANY_ROWS, MANY_BYTES) if several else (TOO_MANY_ROWS, TOO_MANY_BYTES)
        large = rows >= many[0] if rows is not None else is_large(batch, many[1])
        return large and not self.computing.sends_rows(layout, batch)  # no copies of rows are saved there

    def _unknown(self, layout: Layout) -> bool:
        """Tell whether some grouping may be large, and nothing is known of its groups yet."""
        if self.executor_state is None or self._asked == _asked(layout):
            return False
        named = (name for tree in layout.plan.trees for name, _ in _keyed(tree))
        return any(name not in self.spread for name in named)

    def _look(self, plain: Layout, batch: DataFrame, known: Mapping[str, Table], judged: Bounds) -> None:
        """Estimate the groupings' partials and choose who feeds whom."""
        same = self._asked == _asked(plain)
        self._asked, self._looked_at = _asked(plain), max(1, self.computing.progress.clock.counts.ingested)
        with suppress(Exception):  # an expression that fails: the batch itself will tell of it
            self.estimates = self.computing.estimate(batch, plain, known, judged)
            self._looked_at += round(max((one.rows for one in self.estimates.values()), default=0.0))
            trees = [tree for tree in plain.plan.trees if tree.name in self.estimates]
            before = self.feeding if same else {}
            chosen = {tree.name: self._feeders(tree, before.get(tree.name)) for tree in trees}
            self.feeding = {name: feeders for name, feeders in chosen.items() if feeders}

    def _feeders(self, tree: Tree, before: Feeders | None) -> Feeders:
        """Choose among the groupings that the driver keeps; what outgrows it feeds nobody."""
        estimate = self.estimates[tree.name]
        most = float("inf") if self.executor_state is None else self.max_driver_groups * PARTIALS_A_GROUP
        small = {keys: partials for keys, partials in estimate.partials.items() if partials <= most}
        asked = [g.keys for g in tree.groupings if (tree.space, g.keys) not in self.spread]
        return choose_feeders([keys for keys in asked if keys in small], Estimate(estimate.rows, small), before)

    def _without_spread(self) -> Feeding:
        """Return who feeds whom among the groupings that the driver keeps."""
        if not self.spread:
            return self.feeding
        kept = {}
        for tree, feeders in self.feeding.items():
            fed = {keys: tuple(k for k in some if (tree, k) not in self.spread) for keys, some in feeders.items()}
            kept[tree] = {keys: some for keys, some in fed.items() if some}
        return {tree: feeders for tree, feeders in kept.items() if feeders}

    # -- who is kept by the executors ----------------------------------------------------------------------------

    def _hand_over(self, layout: Layout, before: Callable[[], None]) -> None:
        """Hand groupings that have outgrown the driver to the executors, with all that is stored of them.

        Of woven trees nothing is handed over, as it could not move any more: all queries are put into one tree first.
        """
        self._waiting = False
        for tree in layout.plan.trees if self.executor_state is not None else ():
            for name, definitions in _keyed(tree):
                if name in self.spread or name in self._stays or self._size(tree, name) <= self.max_driver_groups:
                    continue
                if _woven_trees(layout) > 1 and layout.plan.strategy == "weave":
                    self._waiting = True
                    continue
                before()
                if not self._taken_over(name, definitions):
                    self._stays.add(name)
                    continue
                self.synopsis.let_go_of(name)
                about = {"event": "grouping spread", "stream": definitions[0].query.stream}
                LOG.info(f"the partials by {', '.join(name[1])} are kept by the executors from now on", extra=about)

    def _taken_over(self, name: GroupingName, definitions: Sequence[Definition]) -> bool:
        """Let the executors take a grouping over, if they can."""
        assert self.executor_state is not None
        try:
            return self.executor_state.may_have(definitions) and self.executor_state.begin(name, self.commits)
        except Exception as error:
            log_defect(defect_of(error, f"partials by {', '.join(name[1])} were handed to the executors"), definitions)
            return False

    def _size(self, tree: Tree, name: GroupingName) -> float:
        """Return how large a grouping is: its groups, known or estimated; many slices and predicates count too."""
        _, keys = name
        estimate = self.estimates.get(tree.name) or Estimate(0.0, {})
        partials = estimate.partials.get(keys, 0.0) / PARTIALS_A_GROUP
        return max(self.synopsis.group_count(name), estimate.groups.get(keys, 0.0), partials)

    def has_spread(self, definition: Definition) -> bool:
        """Tell whether the executors keep the groups of a query, or would if it were there."""
        if self.executor_state is None or not self.spread:
            return False
        return (tree_of(definition, self.executor_state.strategy), definition.query.keys) in self.spread

    def refuse_what_cannot_be(self, definition: Definition) -> None:
        """Raise if the executors keep a query's groups and cannot answer it."""
        if self._cannot_be(definition):
            raise Unsupported(
                f'query "{definition.name}" cannot be answered',
                detail=CANNOT_BE,
                hint="Select only keys and aggregates, or group by other keys as well.",
            )

    def pause_what_cannot_be(self, layout: Layout, due_windows: DueWindows) -> None:
        """Pause queries that joined a spread grouping and cannot be answered there: older catalogs may have some."""
        for definition in layout.plan.definitions if self.spread else ():
            if self._cannot_be(definition) and definition.id not in due_windows.progress.windows.paused:
                pause_by_hand(due_windows.progress, definition, CANNOT_BE)
                due_windows.report(definition, f" is paused: {CANNOT_BE}", "query paused")

    def _cannot_be(self, definition: Definition) -> bool:
        """Tell whether the executors keep a query's groups and cannot answer it."""
        executor_state = self.executor_state
        return executor_state is not None and self.has_spread(definition) and not executor_state.may_have([definition])

    def refuse_the_past(self, definitions: Iterable[Definition]) -> None:
        """Raise if a query asks for its past where the executors keep its partials."""
        for definition in filter(self.has_spread, definitions):
            raise Unsupported(
                f'the past of query "{definition.name}" is not available',
                detail="it has too many groups for the driver, so the executors keep their partials",
                hint="Leave out the option from: the query then begins with the rows to come.",
            )


def _woven_trees(layout: Layout) -> int:
    """Count the trees but for that of sessions, which nothing is woven into."""
    return sum(tree.name != SESSIONS for tree in layout.plan.trees)


def _keyed(tree: Tree) -> Iterator[tuple[GroupingName, list[Definition]]]:
    """List the groupings of a tree that have keys, with their queries; those of sessions stay in the driver."""
    for grouping in tree.groupings if tree.name != SESSIONS else ():
        if grouping.keys:
            yield (tree.space, grouping.keys), [d for d in tree.definitions if d.query.keys == grouping.keys]


def _asked(layout: Layout) -> object:
    """Name what an estimate depends on."""
    return [(tree.name, tuple((g.keys, g.conditions) for g in tree.groupings)) for tree in layout.plan.trees]
