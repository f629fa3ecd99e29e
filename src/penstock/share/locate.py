"""Chooses the cheapest way for rows to find their slice, from a tree's edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.model.duration import SECOND, format_duration
from penstock.share.slices import Progression, SliceManager

FINER_AT_MOST: Final = 4.0  # granules per slice up to which plain division is taken
COARSE_ENOUGH_US: Final = SECOND // 10  # without keys, so few partials come of such granules that division always pays
FEW_TREES: Final = 16  # up to so many, a column for each is planned fast, and constants are divided by faster
PROGRESSIONS_AT_MOST: Final = 8  # edge progressions up to which a row computes its slice by arithmetic


@dataclass(frozen=True, slots=True)
class ByDivision:
    """Rows are cut by a granule that divides every edge; the driver merges granules to slices."""

    granule: Progression

    def __str__(self) -> str:
        """Print the way as a plan line."""
        return f"division by {format_duration(self.granule.step)}"


@dataclass(frozen=True, slots=True)
class ByArithmetic:
    """A row's slice starts at the latest of a few progressions' last edges."""

    progressions: tuple[Progression, ...]

    def __str__(self) -> str:
        """Print the way as a plan line."""
        return f"arithmetic over {len(self.progressions)} progressions"


@dataclass(frozen=True, slots=True)
class BySearch:
    """A row looks its slice up among the edges of the batch's stretch of time."""

    def __str__(self) -> str:
        """Print the way as a plan line."""
        return "binary search among edges"


Locating = ByDivision | ByArithmetic | BySearch


def choose_locating(manager: SliceManager, *, many: bool, trees: int = 1) -> Locating:
    """Divide where a granule makes few more partials than the slices would, else compute, else search.

    ``many`` partials a slice, of groups or of fragments, are not to be multiplied by granules. Among many ``trees``
    rows compute their slices by tables, and two progressions with one step take no longer than a granule.
    """
    granule = manager.granule()
    if trees > FEW_TREES and is_tabled(manager.progressions):
        return ByArithmetic(tuple(manager.progressions))
    few = granule is not None and not many and granule.step >= COARSE_ENOUGH_US
    if granule is not None and (few or manager.edge_rate(granule.step) * FINER_AT_MOST >= 1.0):
        return ByDivision(granule)
    if len(manager.progressions) <= PROGRESSIONS_AT_MOST:
        return ByArithmetic(tuple(manager.progressions))
    return BySearch()


def is_tabled(progressions: Sequence[Progression]) -> bool:
    """Tell whether edges are those of one or two progressions with the same step, which tables of trees can hold."""
    return 1 <= len(progressions) <= 2 and progressions[0].step == progressions[-1].step
