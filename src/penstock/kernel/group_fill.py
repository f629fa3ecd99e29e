"""Estimates into how many groups the rows of a grouping seem to fall, from the partials of the last batches.

Rows do not fill all groups of a slice evenly, and conditions take only some of the rows. The cost model needs to know
how many partials slices of another length would have. So the estimate is the number of groups that would have made
the partials that were seen, if rows filled them evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.share.weave.costs import shards_of

Keys = tuple[str, ...]
Place = tuple[str, Keys]  # tree, keys


@dataclass(slots=True)
class GroupsPerRow:
    """What the last batches made of a grouping in a tree: partials, slices with rows, and rows that arrived."""

    conditions: int
    partials: float = 0.0
    slices: float = 0.0
    rows: float = 0.0

    def note(self, partials: int, slices: int, rows: int) -> None:
        """Add a batch; earlier ones count half as much as before."""
        self.partials = self.partials / 2 + partials
        self.slices = self.slices / 2 + slices
        self.rows = self.rows / 2 + rows

    def groups(self, fragments_per_condition: float) -> float:
        """Return how many groups make so many partials; several conditions part each by their fragments."""
        several = max(1.0, fragments_per_condition * self.conditions) if self.conditions > 1 else 1.0
        return shards_of(self.rows, self.slices, self.partials) / several


@dataclass(slots=True)
class GroupFill:
    """The fills of all groupings with keys."""

    fills: dict[Place, GroupsPerRow] = field(default_factory=dict)

    def note(self, place: Place, conditions: int, counts: tuple[int, int, int]) -> None:
        """Add a batch's partials, slices and rows; with other conditions than before, begin anew."""
        fill = self.fills.get(place)
        if fill is None or fill.conditions != conditions:
            fill = self.fills[place] = GroupsPerRow(conditions)
        fill.note(*counts)

    def keep(self, trees: Iterable[str]) -> None:
        """Forget what is in no tree any more."""
        alive = set(trees)
        self.fills = {place: fill for place, fill in self.fills.items() if place[0] in alive}

    def groups(
        self, known: Mapping[tuple[str, ...], int], fragments_per_condition: float
    ) -> dict[tuple[str, ...], float]:
        """Return the groups by their keys, at most as many as are known; of several trees, weighed by partials."""
        weighed: dict[Keys, list[tuple[float, float]]] = {}
        for (_, keys), fill in list(self.fills.items()):
            if fill.partials > 0 and known.get(keys):
                found = min(fill.groups(fragments_per_condition), float(known[keys]))
                weighed.setdefault(keys, []).append((found, fill.partials))
        return {keys: sum(g * w for g, w in some) / sum(w for _, w in some) for keys, some in weighed.items()}
