"""Computes how often windows have an edge: exactly below a size limit, by sampling beyond it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from penstock.model.arrays import BoolArray
from penstock.model.duration import SECOND
from penstock.model.window import Window
from penstock.share.slices import Progression, SliceManager
from penstock.share.weave.pairs import common_edges
from penstock.share.weave.sampling import Density, sampled_density

MOST_BITS: Final = 1 << 20  # of a bitmap of edges: composite slides up to so many granules are counted


@dataclass(frozen=True, slots=True)
class GranuleScale:
    """Times as whole granules from an origin: the smaller numbers of progressions that have all of them in common."""

    origin: int
    granule: int
    period: int  # composite slide, in granules

    def within(self, progression: Progression) -> Progression:
        """Return a progression on this scale."""
        return Progression(progression.step // self.granule, (progression.phase - self.origin) // self.granule)

    def bits(self, progressions: Iterable[Progression]) -> BoolArray:
        """Mark the edges of one composite slide (Guirguis et al. 2011, §8.2)."""
        marked = np.zeros(self.period, np.bool_)
        for progression in map(self.within, progressions):
            marked[progression.phase :: progression.step] = True
        return marked


def scale_of(progressions: Iterable[Progression]) -> GranuleScale:
    """Find the coarsest scale on which all progressions are whole."""
    known = tuple(progressions)
    origin = known[0].phase
    granule = math.gcd(*(part for p in known for part in (p.step, p.phase - origin)))
    return GranuleScale(origin, granule, math.lcm(*(p.step // granule for p in known)))


def progressions_of(windows: Iterable[Window]) -> tuple[Progression, ...]:
    """Return the progressions of windows' edges, none within another."""
    return SliceManager(windows).progressions


@lru_cache(maxsize=4096)
def union_density(progressions: tuple[Progression, ...]) -> Density:
    """Return the edges per microsecond of a union: by gcd for two, by bitmap below the cap, by sampling beyond."""
    if not progressions:
        return Density(0.0)
    scale = scale_of(progressions)
    if len(progressions) <= 2:
        return Density(_of_two(progressions, scale.period * scale.granule))
    if scale.period <= MOST_BITS:
        return Density(int(np.count_nonzero(scale.bits(progressions))) / (scale.period * scale.granule))
    return sampled_density([scale.within(p) for p in progressions]).per(scale.granule)


def edge_rate(windows: Iterable[Window]) -> Density:
    """Return the edges per second of windows that share their slices."""
    return union_density(progressions_of(windows)).per(1 / SECOND)


def weaveability(first: Sequence[Window], second: Sequence[Window]) -> float:
    """Return the share of common edges among all of two trees (§4.3, Eq. 4)."""
    ours, theirs = union_density(progressions_of(first)), union_density(progressions_of(second))
    together = union_density(progressions_of((*first, *second)))
    return max(0.0, ours.value + theirs.value - together.value) / together.value


def _of_two(progressions: tuple[Progression, ...], period: int) -> float:
    """Return the density of one progression, or of two."""
    counted = sum(period // p.step for p in progressions)
    if len(progressions) == 2:
        counted -= common_edges(progressions[:1], progressions[1:], period)
    return counted / period
