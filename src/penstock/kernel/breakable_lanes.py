"""Isolates a defect in one lane: empties the lane, charges its queries, and lets all others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

from penstock.evaluate.components.numbers import Component
from penstock.evaluate.groups import Groups
from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.bundles import Bundle, ColumnLane
from penstock.evaluate.windows.growth import UNBOUNDED, Growth
from penstock.evaluate.windows.lane_edges import LaneEdges
from penstock.evaluate.windows.lanes import DenseLane, Lane, ScanLane
from penstock.evaluate.windows.partials import Merged
from penstock.evaluate.windows.session_lane import SessionLane
from penstock.evaluate.windows.wide_lane import WideLane, may_be_wide
from penstock.kernel.defects import Defect, defect_of
from penstock.model.window import Window
from penstock.share.plan import SESSIONS, LaneKey, Tree

MANY_SLICES: Final = 2  # of its tree for one that a lane needs: from then on, the lane has slices of its own

Kernel = Literal["fast", "scan"]
GroupingKey = tuple[str, tuple[str, ...]]  # space of the trees, keys


class BreakableLanes:
    """Lanes, their bundles and groups.

    ``defects`` names the lanes that a defect took all that they held, or one component: until somebody has taken note
    and removes them there, their queries are not answered. A lane that broke takes partials again from then on.
    """

    def __init__(self, kernel: Kernel, growth: Growth = UNBOUNDED) -> None:
        """Start without lanes; ``growth`` says how much their arrays may have to spare."""
        self.kernel, self.growth = kernel, growth
        self.lanes: dict[LaneKey, Lane] = {}
        self.defects: dict[tuple[LaneKey, Component | None], Defect] = {}
        self._members: dict[LaneKey, tuple[Definition, ...]] = {}  # the queries of each lane
        self._bundles: dict[tuple[str, tuple[Component, ...]], Bundle] = {}  # by tree and components
        self._groups: dict[GroupingKey, Groups] = {}
        self._home: dict[LaneKey, str] = {}  # lane → tree
        self._rates: dict[str, float] = {}  # edges of trees, as :class:`LaneEdges` counts them

    def _empty_lane(self, key: LaneKey, components: tuple[Component, ...]) -> Lane:
        """Make a lane of the kernel's kind; predicates without keys are columns of one bundle.

        Those with states are not: every window would merge the states of every predicate.
        """
        if key.tree == SESSIONS:
            return SessionLane(components)
        if self.kernel == "scan":
            return ScanLane(components)
        if key.keys or any(component.is_state for component in components):
            edges, tree = self._edges_of(key, components), self._rates.get(self._home.get(key, ""), 0.0)
            if edges is not None and MANY_SLICES * edges.rate <= tree:
                return WideLane(components, edges, self.growth)
            return DenseLane(components, self.growth)
        return self._bundles.setdefault((self._home[key], components), Bundle(components, self.growth)).open()

    def _look_at_edges(self, trees: Iterable[Tree]) -> None:
        """Note how many edges the windows of each tree have."""
        self._rates = {tree.name: LaneEdges.of(tree.windows).rate for tree in trees}

    def _follow_edges(self, key: LaneKey, lane: Lane) -> None:
        """Let the slices of a lane that has its own end where windows of its queries do, which have changed."""
        if isinstance(lane, WideLane):
            lane.follow(self._edges_of(key, lane.components))

    def _edges_of(self, key: LaneKey, components: Sequence[Component]) -> LaneEdges | None:
        """Return the edges of a lane's own windows; None: its slices are those of its tree."""
        windows = {member.query.window for member in self._members.get(key, ())}
        if not windows or not may_be_wide(components) or any(type(one) is not Window for one in windows):
            return None
        return LaneEdges.of(windows)

    def lost(self, key: LaneKey, definition: Definition) -> Defect | None:
        """Return the defect that took a lane what a query needs of it; None: there was none."""
        if not self.defects:
            return None
        each = (self.defects.get((key, component)) for component in (None, *definition.typed.components))
        return next((defect for defect in each if defect is not None), None)

    def merged(self, key: LaneKey, evaluate: Callable[..., Merged], *given: Any, **how: Any) -> Merged:
        """Merge partials of a lane, or of its bundle; if that fails, nothing half done is left to be answered from."""
        try:
            return evaluate(*given, **how)
        except Exception as error:
            self.tear(key, defect_of(error, f"partials {named(key.keys)} were merged"))
            raise

    def on_lane(self, lane: LaneKey | Bundle, doing: str, do: Callable[..., object], *given: object) -> None:
        """Do something with a lane, or with a bundle of them; if that fails, it is emptied, and the others go on."""
        try:
            do(*given)
        except Exception as error:
            key = self._column_of(lane) if isinstance(lane, Bundle) else lane
            self.tear(key, defect_of(error, f"{doing} {named(key.keys)}"))

    def on_grouping(self, grouping: GroupingKey, doing: str, do: Callable[..., object], *given: object) -> None:
        """Do something with the groups of a grouping; if that fails, all its lanes are emptied."""
        try:
            do(*given)
        except Exception as error:
            self.tear_grouping(grouping, defect_of(error, f"{doing} {named(grouping[1])}"))

    def tear(self, key: LaneKey, defect: Defect) -> None:
        """Empty a lane, with all others of its bundle, of what may be half done."""
        lane, keys = self.lanes.get(key), [key]
        if isinstance(lane, ColumnLane):
            keys = [k for k, one in self.lanes.items() if isinstance(one, ColumnLane) and one.bundle is lane.bundle]
            self._bundles = {name: bundle for name, bundle in self._bundles.items() if bundle is not lane.bundle}
        for torn in keys:
            self.lanes[torn] = self._empty_lane(torn, self._needed(torn))
            self.defects.setdefault((torn, None), defect)

    def tear_grouping(self, grouping: GroupingKey, defect: Defect) -> None:
        """Empty all lanes of a grouping, and number its groups anew."""
        self._groups[grouping] = Groups(self._groups[grouping].types)
        for key in [key for key in self.lanes if (key.tree, key.keys) == grouping]:
            self.tear(key, defect)

    def _column_of(self, bundle: Bundle) -> LaneKey:
        """Name a lane of a bundle."""
        lanes = self.lanes.items()
        return next(key for key, lane in lanes if isinstance(lane, ColumnLane) and lane.bundle is bundle)

    def _needed(self, key: LaneKey) -> tuple[Component, ...]:
        """List the components that a lane is to hold."""
        return components_of(self._members[key]) if key in self._members else self.lanes[key].components


def components_of(members: Sequence[Definition]) -> tuple[Component, ...]:
    """List what the queries of a lane need, each once."""
    return tuple(dict.fromkeys(c for d in members for c in d.typed.components))


def named(keys: Sequence[str]) -> str:
    """Name a grouping for people."""
    return f"by {', '.join(keys)}" if keys else "without keys"
