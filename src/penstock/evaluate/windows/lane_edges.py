"""Names the edges of a lane's own windows: between two of them, the slices of its tree need not be told apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.evaluate.windows.partials import Distinct, Partials
from penstock.model.arrays import Int64Array
from penstock.model.window import Window


@dataclass(frozen=True, slots=True)
class LaneEdges:
    """Where the windows of some queries begin and end: for each pair, at every t ≡ phase (mod slide)."""

    pairs: tuple[tuple[int, int], ...]  # slide, phase; none of which another one's edges are among

    @staticmethod
    def of(windows: Iterable[Window]) -> LaneEdges:
        """List the edges of windows."""
        found = {(one.slide, edge % one.slide) for one in windows for edge in (one.offset, one.offset - one.length)}
        return LaneEdges(tuple(sorted(pair for pair in found if not any(_is_among(pair, other) for other in found))))

    @property
    def rate(self) -> float:
        """Return how many edges there are in a unit of time, at most."""
        return sum(1 / slide for slide, _ in self.pairs)

    def floor(self, times: Int64Array) -> Int64Array:
        """Return the last edge at or before each time."""
        edges = [times - (times - phase) % slide for slide, phase in self.pairs]
        return edges[0] if len(edges) == 1 else np.maximum.reduce(edges)

    def hold(self, times: Int64Array) -> bool:
        """Tell whether all times are edges."""
        return bool((self.floor(times) == times).all())

    def widened(self, partials: Partials, distinct: Distinct) -> tuple[Partials, Distinct]:
        """Let partials begin at the edges before them."""
        floors = self.floor(distinct.labels)
        fresh = np.append(True, floors[1:] != floors[:-1])
        labels, places = floors[fresh], (np.cumsum(fresh) - 1)[distinct.places]
        return Partials(labels[places], partials.groups, partials.planes), Distinct(labels, places)


def _is_among(pair: tuple[int, int], other: tuple[int, int]) -> bool:
    """Tell whether the edges of a pair are among those of another one."""
    slide, phase = pair
    return pair != other and slide % other[0] == 0 and phase % other[0] == other[1]
