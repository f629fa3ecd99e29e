"""Divides the conditions of each grouping into parts, and reuses the parts of the plan before.

A query that comes or goes changes the part of its own attributes; all others are as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from penstock.language.predicates.attributes import Attribute
from penstock.language.predicates.split import Formula
from penstock.model.recent import Recent
from penstock.share.conditions.axes import AxisKey
from penstock.share.conditions.cells import NOBODY, CellPart, Cells, number_part
from penstock.share.conditions.condition_groups import MOST_CELLS, families, told_apart
from penstock.share.conditions.formulas import Ground
from penstock.share.plan import BITS_PER_WORD

MOST_KEPT: Final = 64  # parts that the next plan may have too
FEW_PARTS: Final = 32  # up to so many, each has a stretch of numbers of its own, whatever the others need

parts_made: Recent[object, CellPart] = Recent(MOST_KEPT)  # by all that makes them


class ConditionGroupMemory:
    """How the conditions of one stream were grouped when the same attributes were tested last."""

    def __init__(self, most: int = MOST_CELLS) -> None:
        """Start with nothing planned; conditions of other attributes are joined up to so many cells."""
        self._most = most
        self._grouped: Recent[frozenset[AxisKey], tuple[frozenset[AxisKey], ...]] = Recent(MOST_KEPT)

    def copy(self) -> ConditionGroupMemory:
        """Return a memory of the same, for a plan that is only shown: the next one of the stream is not bent by it."""
        copied = ConditionGroupMemory(self._most)
        copied._grouped = self._grouped.copy()
        return copied

    def families(self, ground: Ground, formulas: Sequence[Formula]) -> list[list[int]]:
        """Group conditions, much as they were grouped before."""
        uses = [ground.axes_of(one) for one in formulas]
        number = {axis.key: place for place, axis in enumerate(ground.axes)}
        tested = frozenset(ground.axes[axis].key for axis in frozenset().union(*uses))
        before = [frozenset(number[key] for key in one) for one in self._grouped.get(tested) or ()]
        found = families(ground.axes, uses, before, most=self._most)
        self._grouped.keep(tested, tuple(frozenset(ground.axes[a].key for a in attributes) for attributes, _ in found))
        return [members for _, members in found]


def divide(
    groupings: Sequence[Sequence[Formula]],
    opaque: Callable[[int, int], Formula],
    attributes: Mapping[str, Attribute],
    memory: ConditionGroupMemory,
) -> Cells:
    """Choose parts for the conditions of each grouping, much as ``memory`` has them, and give their cells numbers.

    A condition of so many attributes that no number could tell its cells apart is replaced by its ``opaque`` form,
    asked for by grouping and place.
    """
    ground = Ground(groupings, attributes)
    wide = [[not told_apart(ground.axes_of(one), ground.axes) for one in formulas] for formulas in groupings]
    if any(map(any, wide)):
        groupings = [
            [opaque(number, place) if wide[number][place] else one for place, one in enumerate(formulas)]
            for number, formulas in enumerate(groupings)
        ]
        ground = Ground(groupings, attributes)
    return Cells(tuple(ground.axes), tuple(_parts(ground, formulas, memory) for formulas in groupings))


def _parts(ground: Ground, formulas: Sequence[Formula], memory: ConditionGroupMemory) -> tuple[CellPart, ...]:
    """Choose the parts of one grouping."""
    words, first = -(-len(formulas) // BITS_PER_WORD), NOBODY + 1
    chosen = memory.families(ground, formulas)
    parts: list[CellPart] = []
    for members in chosen:
        part = _part(ground, [formulas[i] for i in members], tuple(members), words).starting_at(first)
        parts.append(part)
        if len(chosen) <= FEW_PARTS:
            first += 2 * MOST_CELLS
        else:
            first += len(part.fragments.failed) if part.fragments is not None else part.cells
    return tuple(parts)


def _part(ground: Ground, formulas: Sequence[Formula], conditions: tuple[int, ...], words: int) -> CellPart:
    """Number the cells of a part, or return them as they were numbered for a plan before."""
    used = sorted(frozenset().union(*(ground.axes_of(one) for one in formulas)))
    lines = tuple((axis, ground.axes[axis].key, tuple(ground.axes[axis].constants)) for axis in used)
    name = tuple(formulas), conditions, words, lines
    return parts_made.get_or(
        name, lambda: number_part(ground.axes, [ground.placed(one) for one in formulas], conditions, words)
    )
