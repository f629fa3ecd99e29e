"""Explains how predicates are told apart: attributes, opaque predicates, cells, fragments and their saving."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.language.binding.columns_read import is_bare
from penstock.model.counts import counted
from penstock.printable import shown
from penstock.share.conditions.axes import Axis
from penstock.share.conditions.cells import CellPart, Cells
from penstock.share.conditions.formulas import axes_of, leaves

MOST_NAMES: Final = 8  # of a long list, in text
_JOINED: Final = re.compile(r"`(?P<inner>[^`#]+)#[^`]*\.#` IS NOT NULL|coalesce\(`(?P<other>[^`#]+)#[^`]*\.#`, 0\) = 0")


@dataclass(frozen=True, slots=True)
class AttributePlan:
    """An expression that predicates test: how a row finds its place on it, and who asks."""

    text: str
    constants: int  # it is searched among; 0: a boolean, taken as it is
    opaque: bool  # a predicate that is not split any further
    may_fail: bool  # it is attempted, so that it fails for nobody who does not reach it
    queries: tuple[str, ...]

    def __str__(self) -> str:
        """Print the attribute as a plan line."""
        how = counted(self.constants, "constant") if self.constants else ("opaque" if self.opaque else "flag")
        tried = ", attempted" if self.may_fail else ""
        return shown(f"{self.text} ({how}{tried}): {_listed(self.queries)}")

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        told = {"attribute": self.text, "constants": self.constants, "opaque": self.opaque, "may_fail": self.may_fail}
        return told | {"queries": list(self.queries)}


@dataclass(frozen=True, slots=True)
class PartPlan:
    """Conditions that one number per row tells apart."""

    attributes: tuple[str, ...]
    conditions: int
    cells: int
    fragments: int | None  # None: more cells than are listed beforehand, so signatures are found as cells appear

    def __str__(self) -> str:
        """Print the part as a plan line."""
        found = "signatures found as cells appear" if self.fragments is None else counted(self.fragments, "fragment")
        on = f"{counted(self.conditions, 'condition')} on {_listed(self.attributes)}"
        return shown(f"{on}: {counted(self.cells, 'cell')}, {found}")

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        told = {"attributes": list(self.attributes), "conditions": self.conditions}
        return told | {"cells": self.cells, "fragments": self.fragments}


@dataclass(frozen=True, slots=True)
class PredicatesPlan:
    """How the predicates of one grouping are told apart, all at once."""

    attributes: tuple[AttributePlan, ...]
    parts: tuple[PartPlan, ...]  # a copy of the rows each
    tests: int  # of all queries, each for itself

    @property
    def places(self) -> int:
        """Count what is looked up of a row instead of testing it for every query."""
        return len(self.attributes)

    def lines(self) -> list[str]:
        """Print a line for each attribute and part, and one for what is saved."""
        lines = [f"attribute {attribute}" for attribute in self.attributes]
        lines += [f"fragments of {part}" for part in self.parts]
        saved = f"{counted(self.places, 'place')} looked up a row instead of {counted(self.tests, 'test')}"
        return [*lines, f"predicates: {saved}"]

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return {
            "attributes": [attribute.to_dict() for attribute in self.attributes],
            "parts": [part.to_dict() for part in self.parts],
            "places_per_row": self.places,
            "tests_per_row_alone": self.tests,
        }


def explain_cells(cells: Cells, number: int, names: Sequence[Sequence[str]]) -> PredicatesPlan | None:
    """Explain the cells of one grouping, given the queries of each of its conditions; None: it takes all rows."""
    parts = cells.parts[number]
    if not parts:
        return None
    users: dict[int, list[str]] = {}
    for part in parts:
        for condition, formula in zip(part.conditions, part.formulas, strict=True):
            for axis in axes_of(formula):
                users.setdefault(axis, []).extend(names[condition])
    attributes = tuple(_attribute(cells.axes[axis], users[axis]) for axis in sorted(users))
    tests = sum(
        len(names[condition]) * len(leaves(formula))
        for part in parts
        for condition, formula in zip(part.conditions, part.formulas, strict=True)
    )
    return PredicatesPlan(attributes, tuple(_part(cells, part) for part in parts), tests)


def _attribute(axis: Axis, queries: Sequence[str]) -> AttributePlan:
    """Explain one axis."""
    attribute = axis.key.attribute
    plain = is_bare(attribute.text) or _JOINED.fullmatch(attribute.text) is not None
    opaque = axis.key.kind == "boolean" and not plain
    named = tuple(dict.fromkeys(queries))
    return AttributePlan(_spelled(attribute.text), len(axis.constants), opaque, attribute.may_fail, named)


def _spelled(text: str) -> str:
    """Spell what joins ask of a row for people; a predicate's text stays."""
    found = _JOINED.fullmatch(text)
    if found is None:
        return text
    return f"a row of {found['inner']} matches" if found["inner"] else f"once, whatever matches in {found['other']}"


def _part(cells: Cells, part: CellPart) -> PartPlan:
    """Explain one part."""
    used = sorted(frozenset().union(*(axes_of(formula) for formula in part.formulas)))
    attributes = tuple(_spelled(cells.axes[axis].key.attribute.text) for axis in used)
    fragments = None if part.fragments is None else len(part.fragments.failed)
    return PartPlan(attributes, len(part.conditions), part.cells, fragments)


def _listed(names: Sequence[str]) -> str:
    """List the first names."""
    more = f", … {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
