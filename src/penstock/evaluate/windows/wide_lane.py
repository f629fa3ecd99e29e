"""Keeps a lane's partials in slices as wide as its own windows allow, however fine those of its tree are.

A tree's slices end where any window of any of its queries does. A query of long windows beside one of short ones would
have many times the slices that it needs, each a row of arrays as wide as there are groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.evaluate.components.numbers import Component, Planes
from penstock.evaluate.components.states import State, bytes_of
from penstock.evaluate.components.value_tables import FrequencyTable
from penstock.evaluate.windows.lane_edges import LaneEdges
from penstock.evaluate.windows.lanes import UNBOUNDED, DenseLane, Growth
from penstock.evaluate.windows.partials import Distinct, Merged, Partials
from penstock.evaluate.windows.scan import ScanLane
from penstock.model.arrays import Int64Array


class WideLane(DenseLane):
    """A dense lane whose labels are the edges of its own windows.

    What came is kept as it came, too, in flat rows: if windows with other edges are asked for, the lane is made of them
    anew, with slices as fine as they came, and stays so.
    """

    def __init__(self, components: Sequence[Component], edges: LaneEdges, growth: Growth = UNBOUNDED) -> None:
        """Begin without partials."""
        super().__init__(components, growth)
        self._edges: LaneEdges | None = edges
        self._came: list[tuple[Partials, Distinct]] = []

    def add_partials(self, partials: Partials, distinct: Distinct | None = None) -> None:
        """Take partials as flat rows."""
        partials, distinct = self._not_expired(partials, Distinct.of(partials.labels) if distinct is None else distinct)
        if self._edges is not None and len(partials):
            self._came.append((partials, distinct))
            partials, distinct = self._edges.widened(partials, distinct)
        super().add_partials(partials, distinct)

    def evaluate(
        self,
        starts: Int64Array,
        ends: Int64Array,
        *,
        keep_empty: bool = False,
        ranks: Int64Array | None = None,
        wanted: Sequence[Component] | None = None,
    ) -> Merged:
        """Merge for each evaluation all partials with start <= label < end, group by group, in order of their ranks."""
        if self._edges is not None and not (self._edges.hold(starts) and self._edges.hold(ends)):
            self.follow(None)
        return super().evaluate(starts, ends, keep_empty=keep_empty, ranks=ranks, wanted=wanted)

    def follow(self, edges: LaneEdges | None) -> None:
        """Let slices end at other edges from now on; None: where they came. What came is put into them anew.

        Where slices are as they came once, they stay so.
        """
        if self._edges is None or edges == self._edges:
            return
        came, self._edges, self._came = self._came, edges, []
        self._empty()
        for one in came:
            self.add_partials(*one)

    def expire(self, before: int) -> None:
        """Forget labels before a time, or before the edge that it follows: windows begin at edges."""
        if self._edges is not None:
            before = int(self._edges.floor(np.array(before)))
            self._came = [one for one in self._came if one[1].labels[-1] >= before]
        super().expire(before)

    def reopen(self, since: int) -> None:
        """Take labels from a time on again, or from the edge that it follows."""
        super().reopen(since if self._edges is None else int(self._edges.floor(np.array(since))))

    def hold(self, components: Sequence[Component]) -> DenseLane:
        """Keep just these components, rows first; what is stored holds nothing of the new ones."""
        known = {component: place for place, component in enumerate(self.components)}

        def planes_of(component: Component, partials: Partials) -> Planes:
            place = known.get(component)
            return component.identities(len(partials)) if place is None else partials.planes[place]

        self._came = [
            (Partials(one.labels, one.groups, tuple(planes_of(c, one) for c in components)), distinct)
            for one, distinct in self._came
        ]
        return super().hold(components)

    def renumber(self, moved: Int64Array) -> None:
        """Take groups' new numbers; what has none, −1, has expired."""
        super().renumber(moved)
        came, self._came = self._came, []
        for partials, distinct in came:
            groups = moved[partials.groups]
            rows = np.flatnonzero(groups >= 0)
            kept = partials.take(rows)
            if len(rows):
                self._came.append((Partials(kept.labels, groups[rows], kept.planes), distinct.take(rows)))

    def to_scan(self) -> ScanLane:
        """Return a lane with the same partials, as they came, that scans them."""
        self.follow(None)
        return super().to_scan()

    @property
    def state_bytes(self) -> int:
        """Return about how much memory states take."""
        places = [place for place, component in enumerate(self.components) if component.is_state]
        return super().state_bytes + sum(
            bytes_of(one.planes[place][0]) for one, _ in list(self._came) for place in places
        )

    @property
    def nbytes(self) -> int:
        """Return about how much memory the lane takes, with what came."""
        return super().nbytes + sum(partials.nbytes + distinct.places.nbytes for partials, distinct in list(self._came))


def may_be_wide(components: Sequence[Component]) -> bool:
    """Tell whether a lane gains by wide slices: frequency tables have none, and users' code is not called for them."""
    states = [component for component in components if isinstance(component, State)]
    return not any(isinstance(one, FrequencyTable) or one.code is not None for one in states)
