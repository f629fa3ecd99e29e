"""Defines a query as the weaver sees it, and the trees that it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from penstock.model.counts import counted
from penstock.model.window import Window

Places = npt.NDArray[np.int64]
Merging = Literal["prefix", "tree", "scan"]


@dataclass(frozen=True, slots=True)
class PlanQuery:
    """One query to be woven: its window, and by number the grouping and condition whose partials it reads."""

    window: Window
    grouping: int = 0
    condition: int = 0
    merging: Merging = "scan"  # how its windows are put together: from prefixes, from a tree, or slice by slice

    @property
    def lane(self) -> tuple[int, int]:
        """Return what decides which partials it reads."""
        return self.grouping, self.condition

    @property
    def overlap(self) -> float:
        """Return the overlap factor, range over slide (Guirguis et al. 2011, Eq. 2)."""
        return self.window.length / self.window.slide


@dataclass(frozen=True, slots=True)
class WovenTrees:
    """A plan: trees of queries by number, each tree's cost, and the pairs of trees that were compared for it."""

    trees: tuple[tuple[int, ...], ...]
    costs: tuple[float, ...]
    comparisons: int = 0

    @property
    def cost(self) -> float:
        """Return the cost of the whole plan (Eq. 3)."""
        return float(sum(self.costs))

    def __str__(self) -> str:
        """Print the plan as a line."""
        return f"{counted(len(self.trees), 'tree')}, cost {self.cost:,.6g}"
