"""Keeps the edges of every tree as bits, and computes the edge rates of unions of trees.

Below the cap a tree's row holds one bit for every granule of the composite slide of all windows (the edge bitmap of
Guirguis et al. 2011, §8.2), and rates are exact. Beyond it the times are drawn: as many from each progression, weighed
by how likely they were to be drawn (Karp and Luby 1983; Veach and Guibas 1995 for several sources).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from penstock.model.arrays import FloatArray
from penstock.model.duration import SECOND
from penstock.model.window import Window
from penstock.share.slices import Progression, edges_of
from penstock.share.weave.density import GranuleScale, scale_of
from penstock.share.weave.plan_queries import Places
from penstock.share.weave.sampling import SEED, DrawnTimes
from penstock.share.weave.singles import Singles

MOST_LISTED: Final = 1 << 18  # granules of the composite slide up to which planning is exact: 32 KiB a tree
FEWEST_DRAWN: Final = 8_192
MOST_DRAWN: Final = 32_768
DRAWN_EACH: Final = 24  # times from every progression, within these limits
AT_ONCE: Final = 1 << 19  # words looked at together: they stay in the processor's cache


class EdgeRows(Protocol):
    """The edges of trees, one a row."""

    def knows(self, windows: Iterable[Window]) -> bool:
        """Tell whether rows can hold these windows."""

    def put(self, row: int, windows: Iterable[Window]) -> None:
        """Let a tree have the edges of some windows."""

    def merge(self, row: int, other: int) -> None:
        """Let a tree have another one's edges too."""

    def rates(self, rows: Places) -> FloatArray:
        """Return the edges per second of trees."""

    def together(self, row: int, others: Places) -> FloatArray:
        """Return the edges per second of a tree with each of some others."""


class Bitmaps:
    """All edges of one composite slide."""

    def __init__(self, scale: GranuleScale, rows: int) -> None:
        """Make room for trees."""
        self._scale = scale
        self._bits = np.zeros((rows, -(-scale.period // 64)), np.uint64)
        self._period = scale.period * scale.granule

    def knows(self, windows: Iterable[Window]) -> bool:
        """Tell whether the windows repeat with the composite slide."""
        known, scale = [p for w in windows for p in edges_of(w, "paired")], self._scale
        whole = all((p.phase - scale.origin) % scale.granule == p.step % scale.granule == 0 for p in known)
        return whole and all(self._period % p.step == 0 for p in known)

    def put(self, row: int, windows: Iterable[Window]) -> None:
        """Mark the edges of windows."""
        marked = self._scale.bits(p for w in windows for p in edges_of(w, "paired"))
        packed = np.packbits(marked)
        self._bits[row] = 0
        self._bits[row].view(np.uint8)[: len(packed)] = packed

    def merge(self, row: int, other: int) -> None:
        """Let a tree have another one's edges too."""
        self._bits[row] |= self._bits[other]

    def rates(self, rows: Places) -> FloatArray:
        """Return the edges per second of trees."""
        return self._per_second(np.bitwise_count(self._bits[rows]).sum(axis=1, dtype=np.int64))

    def together(self, row: int, others: Places) -> FloatArray:
        """Return the edges per second of a tree with each of some others."""
        counts, portion = np.empty(len(others), np.int64), max(1, AT_ONCE // self._bits.shape[1])
        for first in range(0, len(others), portion):
            part = others[first : first + portion]
            joined = self._bits[part] | self._bits[row]
            counts[first : first + portion] = np.bitwise_count(joined).sum(axis=1, dtype=np.int64)
        return self._per_second(counts)

    def _per_second(self, counts: Places) -> FloatArray:
        """Turn edges of a composite slide into a rate."""
        found: FloatArray = counts * SECOND / self._period
        return found


@dataclass(frozen=True, slots=True)
class Drawing:
    """Times drawn from progressions: which of them each one has, and what each time weighs."""

    within: Mapping[Progression, npt.NDArray[np.bool_]]
    weights: npt.NDArray[np.float32]


@lru_cache(maxsize=4)  # a plan is weighed several times, over the same edges
def drawing_of(distinct: tuple[Progression, ...]) -> Drawing:
    """Draw times from every progression, and weigh them."""
    each = min(max(FEWEST_DRAWN, DRAWN_EACH * len(distinct)), MOST_DRAWN) // len(distinct) + 1
    times = DrawnTimes([p.step for p in distinct])
    times.draw(distinct, np.repeat(np.arange(len(distinct)), each), np.random.default_rng(SEED))
    within = {p: times.within(p) for p in distinct}
    likely = np.zeros(len(times))
    for progression, held in within.items():
        likely += held * float(progression.step)
    return Drawing(within, (SECOND / each / likely).astype(np.float32))


class Draws:
    """Edges drawn from a composite slide too long to be listed."""

    def __init__(self, progressions: Sequence[Progression], rows: int) -> None:
        """Make room for trees."""
        drawn = drawing_of(tuple(sorted(set(progressions))))
        self._within, self._weights = drawn.within, drawn.weights
        self._marked = np.zeros((len(self._weights), rows), np.float32)  # [time, tree]
        self._rates = np.zeros(rows)

    def knows(self, windows: Iterable[Window]) -> bool:
        """Tell whether times were drawn from all edges of the windows."""
        return all(p in self._within for w in windows for p in edges_of(w, "paired"))

    def put(self, row: int, windows: Iterable[Window]) -> None:
        """Mark the drawn times that are edges of windows."""
        self._marked[:, row] = 0
        for progression in {p for w in windows for p in edges_of(w, "paired")}:
            self._marked[self._within[progression], row] = 1
        self._sum_up(row)

    def merge(self, row: int, other: int) -> None:
        """Let a tree have another one's edges too."""
        np.maximum(self._marked[:, row], self._marked[:, other], out=self._marked[:, row])
        self._sum_up(row)

    def rates(self, rows: Places) -> FloatArray:
        """Return the edges per second of trees."""
        return self._rates[rows]

    def _sum_up(self, row: int) -> None:
        """Keep a tree's rate: it is asked for more often than it changes."""
        self._rates[row] = self._weights[self._marked[:, row] > 0].sum(dtype=np.float64)

    def together(self, row: int, others: Places) -> FloatArray:
        """Return the edges per second of a tree with each of some others."""
        held = np.flatnonzero(self._marked[:, row])
        common = (self._weights[held] @ self._marked[held])[others].astype(np.float64)
        both = self.rates(np.append(others, row))
        found: FloatArray = both[:-1] + both[-1] - common
        return found


class EdgeSets:
    """The edges of all trees: pairs of windows by gcd, everything else by listed or drawn edges."""

    def __init__(self, windows: Iterable[Window], rows: int) -> None:
        """Make room for trees of some windows, exact where their composite slide can be listed."""
        progressions = [p for w in dict.fromkeys(windows) for p in edges_of(w, "paired")]
        scale = scale_of(progressions)
        listed = scale.period <= MOST_LISTED
        self._rows: EdgeRows = Bitmaps(scale, rows) if listed else Draws(progressions, rows)
        self._singles = Singles(rows)

    def knows(self, windows: Iterable[Window]) -> bool:
        """Tell whether rows can hold these windows."""
        return self._rows.knows(windows)

    def put(self, row: int, windows: Iterable[Window]) -> None:
        """Let a tree have the edges of some windows."""
        known = tuple(dict.fromkeys(windows))
        self._rows.put(row, known)
        self._singles.put(row, known)

    def merge(self, row: int, other: int) -> None:
        """Let a tree have another one's edges too."""
        self._rows.merge(row, other)
        self._singles.merge(row, other)

    def rates(self, rows: Places) -> FloatArray:
        """Return the edges per second of trees."""
        return self._rows.rates(rows)

    def together(self, row: int, others: Places) -> FloatArray:
        """Return the edges per second of a tree with each of some others."""
        pairs = self._singles.among(row, others)
        found = np.empty(len(others))
        if pairs.any():
            found[pairs] = self._singles.together(row, others[pairs], SECOND)
        if not pairs.all():
            found[~pairs] = self._rows.together(row, others[~pairs])
        return found
