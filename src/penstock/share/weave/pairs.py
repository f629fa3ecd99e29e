"""Counts exactly the edges that two windows have in common, by gcd and remainders.

Weaveability is the share of common edges among all edges of a composite slide (Guirguis, Sharaf, Chrysanthis and
Labrinidis 2011, §4.3, Definition 1). Edges are those of paired slices, with OFFSETs where windows have them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from penstock.model.window import Window
from penstock.share.slices import Progression, edges_of


@dataclass(frozen=True, slots=True)
class Meeting:
    """The edges of two windows over their composite slide."""

    composite: int
    first: int
    second: int
    common: int

    @property
    def edges(self) -> int:
        """Count the distinct edges."""
        return self.first + self.second - self.common

    @property
    def weaveability(self) -> Fraction:
        """Return the common edges among all (Eq. 4)."""
        return Fraction(self.common, self.edges)

    def edge_rate(self, unit: int) -> float:
        """Return the distinct edges per ``unit`` of time."""
        return self.edges * unit / self.composite


def meet(first: Window, second: Window) -> Meeting:
    """Count the edges of two windows over the lcm of their slides, and those in common."""
    ours, theirs = edges_of(first, "paired"), edges_of(second, "paired")
    composite = math.lcm(first.slide, second.slide)
    first_count, second_count = (len(part) * (composite // part[0].step) for part in (ours, theirs))
    return Meeting(composite, first_count, second_count, common_edges(ours, theirs, composite))


def common_edges(ours: Sequence[Progression], theirs: Sequence[Progression], period: int) -> int:
    """Count times in both of two lists over a period; the progressions of one list never meet each other.

    Two progressions that meet do so once in the lcm of their steps (Chinese remainder theorem).
    """
    return sum(period // math.lcm(a.step, b.step) for a in ours for b in theirs if a.meets(b))
