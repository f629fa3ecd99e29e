"""Places rows in the slices of many trees by tables of their edges.

A label column and a copy for each of 500 trees make a job that Spark plans for seconds, batch by batch, and too large
for generated code. Trees that are cut by one or two progressions differ in numbers alone: these are looked up by the
number of the copy. Conditions, one a tree, are put into an array, and copies are made of its places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from pyspark.sql import Column

from penstock.share.conditions.condition_cells import is_lone
from penstock.share.layout import Layout
from penstock.share.locate import FEW_TREES, ByArithmetic, ByDivision, Locating, is_tabled
from penstock.share.slices import Progression
from penstock.spark.job.binary_search import table
from penstock.spark.job.jvm_columns import written

MOST_CONDITIONS: Final = 256  # beyond, one method that asks them all is too large for the JVM
COPIES: Final = "__copies"
STEPS: Final = "__steps"
PHASES: Final = ("__phases", "__phases2")


@dataclass(frozen=True, slots=True)
class ManyTrees:
    """The progressions of every tree, the only one twice; ``signed``: some have conditions."""

    cut: tuple[tuple[Progression, Progression], ...]
    signed: bool

    def columns(self) -> list[Column]:
        """Write the tables: steps and phases, and the numbers of all copies where conditions do not tell them."""
        listed: dict[str, Sequence[int]] = {} if self.signed else {COPIES: range(len(self.cut))}
        listed |= {STEPS: [first.step for first, _ in self.cut]}
        listed |= {name: [pair[i].phase for pair in self.cut] for i, name in enumerate(PHASES)}
        return [table(np.array(numbers, np.int64), name) for name, numbers in listed.items()]

    def copies(self, numbers: Sequence[str]) -> list[Column]:
        """Write a copy of the row for each tree, with the number that its condition gives the row."""
        if self.signed:
            return [written("*"), written(f"posexplode(array({', '.join(numbers)})) AS (__g, __c)")]
        return [written("*"), written(f"explode({COPIES})", "__g"), written("0L", "__c")]

    def label(self, time: str, number: str) -> str:
        """Write where the slice of a time starts in the tree of a number."""
        at = f"cast({number} as int)"
        lasts = [f"{time} - pmod({time} - {phases}[{at}], {STEPS}[{at}])" for phases in PHASES]
        return f"greatest({', '.join(lasts)})"


def many_trees(layout: Layout) -> ManyTrees | None:
    """Return the trees of a layout if they are many and differ in numbers alone, each with one copy of every row."""
    trees, signed = len(layout.plan.trees), any(m.signed for m in layout.members)
    alike = all(m.carrier and (is_lone(m) or not m.signed) for m in layout.members) and not layout.attempts
    if trees <= FEW_TREES or not alike or (signed and trees > MOST_CONDITIONS):
        return None
    cut = [_progressions(way) for way in layout.locating]
    pairs = [(some[0], some[-1]) for some in cut if is_tabled(some)]
    return ManyTrees(tuple(pairs), signed) if len(pairs) == len(cut) else None


def _progressions(way: Locating) -> Sequence[Progression]:
    """List what a tree is cut by; nothing if its edges are searched."""
    if isinstance(way, ByDivision):
        return [way.granule]
    return way.progressions if isinstance(way, ByArithmetic) else ()
