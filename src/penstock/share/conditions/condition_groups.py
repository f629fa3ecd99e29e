"""Groups conditions into families by the attributes they test; one number per row tells a family apart.

Cells multiply only within a family. A family of its own costs one more copy of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from penstock.share.conditions.axes import Axis

Family = tuple[frozenset[int], list[int]]  # attributes by the number of their axis, and conditions by their place

MOST_HEADS: Final = 64  # combinations of a part's heads
SELDOM: Final = 4  # times fewer tests than the most frequent one
MOST_CELLS: Final = 1 << 55  # that one number tells apart
COPY_WORTH: Final = 3_000  # cells that cost as much as one more copy of the rows
LINGERING: Final = 2.0  # times what a copy is worth, before conditions that are together part; joining, half of it
MOST_PARTS: Final = 16  # beyond, parts are put together whatever their cells


def families(
    axes: Sequence[Axis],
    uses: Sequence[frozenset[int]],
    before: Sequence[frozenset[int]] = (),
    *,
    most: int = MOST_CELLS,
) -> list[Family]:
    """Group conditions by the attributes they test, so that cells multiply only where a condition needs them to.

    Conditions of other attributes join a family only while it has at most so many cells.

    What was together ``before`` parts later, and what was apart joins later than it would at first: each change is new
    code, and one constant more must not turn it back and forth.
    """
    valued = frozenset(number for number, axis in enumerate(axes) if axis.key.kind != "boolean")
    tested = [one & valued for one in uses]
    booleans = [one - valued for one in uses]
    few = _shared_heads(booleans)
    wanted = [one | (flags - few) for one, flags in zip(tested, booleans, strict=True)]
    found: list[Family] = []
    for chosen in sorted(set(wanted), key=lambda s: (-len(s), sorted(s))):
        members = [i for i, one in enumerate(wanted) if one == chosen]
        _join(found, chosen, members, axes, before, most)
    while len(found) > MOST_PARTS and _merge_closest(found, axes):
        pass
    return [(attributes, sorted(members)) for attributes, members in sorted(found, key=lambda f: min(f[1]))]


def _shared_heads(booleans: Sequence[frozenset[int]]) -> frozenset[int]:
    """Choose booleans that are tested often, as long as their combinations stay few."""
    uses: dict[int, int] = {}
    for tested in booleans:
        for axis in tested:
            uses[axis] = uses.get(axis, 0) + 1
    return frozenset(often_first(uses)[: MOST_HEADS.bit_length() // 2])  # three values each


def often_first(uses: Mapping[int, int]) -> list[int]:
    """Put attributes that are tested often first, in an order that one test more does not change: that is new code."""
    most = max(uses.values(), default=0)
    return sorted(uses, key=lambda axis: (SELDOM * uses[axis] < most, axis))


def grid(attributes: frozenset[int], axes: Sequence[Axis]) -> int:
    """Estimate the cells of some attributes together."""
    return prod(3 if axes[a].key.kind == "boolean" else len(axes[a].constants) + 2 for a in attributes)


def told_apart(attributes: frozenset[int], axes: Sequence[Axis]) -> bool:
    """Tell whether one number can tell all cells of some attributes apart."""
    return prod(axes[a].size for a in attributes) < MOST_CELLS


def _join(
    known: list[Family],
    chosen: frozenset[int],
    members: list[int],
    axes: Sequence[Axis],
    before: Sequence[frozenset[int]],
    most: int,
) -> None:
    """Put conditions with a family if that adds fewer cells than a copy of the rows is worth."""
    alone = grid(chosen, axes)
    best: tuple[int, int] | None = None
    for place_, (attributes, _) in enumerate(known):
        together = grid(attributes | chosen, axes)
        growth = together - grid(attributes, axes) - alone
        worth = COPY_WORTH * _bent(attributes | chosen, before)
        fits = together <= most and told_apart(attributes | chosen, axes)
        if fits and growth <= worth and (best is None or growth < best[0]):
            best = growth, place_
    if best is None:
        known.append((chosen, list(members)))
        return
    attributes, others = known[best[1]]
    known[best[1]] = attributes | chosen, others + members


def _bent(attributes: frozenset[int], before: Sequence[frozenset[int]]) -> float:
    """Return by how much a choice is bent towards the one before."""
    if not before:
        return 1.0
    return LINGERING if any(attributes <= one for one in before) else 1 / LINGERING


def _merge_closest(known: list[Family], axes: Sequence[Axis]) -> bool:
    """Put the two known together that make the fewest cells; False if no number could tell these."""
    last = known.pop()
    sizes = [grid(attributes | last[0], axes) for attributes, _ in known]
    best = int(np.argmin([float(size) for size in sizes]))
    if not told_apart(known[best][0] | last[0], axes):
        known.append(last)
        return False
    attributes, members = known[best]
    known[best] = attributes | last[0], members + last[1]
    return True
