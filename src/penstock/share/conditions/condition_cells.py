"""Writes each condition's joins and predicate as one formula, and divides a layout's rows into cells."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from penstock.language.grammar.literals import quote
from penstock.language.predicates.attributes import Attribute
from penstock.language.predicates.split import Every, Formula, IsTrue, Leaf, read_predicate
from penstock.model.query import Join
from penstock.share.conditions.cell_parts import ConditionGroupMemory, divide
from penstock.share.conditions.cells import Cells
from penstock.share.layout import Layout, Member
from penstock.share.plan import Condition, condition_of

ATTEMPTED = "\0"  # before the text of a predicate that is read from where it was attempted


def number_of(join: Join) -> str:
    """Name the column that numbers the table's rows of one key; NULL where no row of the table matched."""
    return quote(f"{join.id}.#")


def admissions(condition: Condition, joins: Sequence[Join]) -> list[str]:
    """Write what the plan's joins ask of a row before a condition looks at it."""
    own = {join.id: join for join in condition.joins}
    parts = []
    for join in joins:
        mine = own.get(join.id)
        if mine is None:
            parts.append(f"coalesce({number_of(join)}, 0) = 0")
        elif mine.kind == "inner":
            parts.append(f"{number_of(join)} IS NOT NULL")
    return parts


def is_lone(member: Member) -> bool:
    """Tell whether a grouping has a single condition: its rows are taken or not, and nothing else is to be told."""
    return len(member.grouping.conditions) == 1


def tell_apart(layout: Layout, memory: ConditionGroupMemory) -> Cells:
    """Divide the rows of a layout's signed groupings into cells; unsigned ones and lone conditions need none.

    ``memory`` tells how the stream's plan before this one grouped conditions.
    """
    return _divided(layout, memory, lone=False)


def tell_lone_apart(layout: Layout) -> Cells:
    """Divide the rows of a layout's groupings with a lone condition into cells, and those of no others."""
    return _divided(layout, ConditionGroupMemory(), lone=True)


def _divided(layout: Layout, memory: ConditionGroupMemory, *, lone: bool) -> Cells:
    """Divide the rows of groupings with a lone condition, or of all others, into cells."""
    firsts = [members[0] for tree in layout.plan.trees for members in tree.lanes.values()]  # one for each condition
    attributes = {a.text: a for d in firsts for a in d.typed.attributes}
    watched = {condition_of(d) for d in layout.plan.definitions if d.id in layout.attempts}
    signed = [m.grouping.conditions if m.signed and is_lone(m) == lone else () for m in layout.members]
    admitted = {c: [_boolean(text) for text in admissions(c, layout.plan.joins)] for each in signed for c in each}
    for condition, leaves in admitted.items():
        for leaf in leaves:
            attributes[leaf.text] = Attribute(leaf.text, "boolean", may_fail=False)
        if condition.where and condition in watched:
            marked = ATTEMPTED + condition.where
            attributes[marked] = Attribute(marked, "boolean", may_fail=False)

    def opaque(grouping: int, place: int) -> Formula:
        condition = signed[grouping][place]
        return _formula(condition, admitted[condition], attempted=condition in watched, whole=True)

    formulas = [[_formula(c, admitted[c], attempted=c in watched) for c in conditions] for conditions in signed]
    return divide(formulas, opaque, attributes, memory)


def _formula(condition: Condition, admitted: Sequence[Leaf], *, attempted: bool, whole: bool = False) -> Formula:
    """Write a whole condition; joins first, so that the predicate is asked only of admitted rows."""
    parts: list[Formula] = [*admitted]
    if condition.where and attempted:
        parts.append(_boolean(ATTEMPTED + condition.where))
    elif condition.where:
        parts.append(_boolean(condition.where) if whole else read_predicate(condition.where))
    return parts[0] if len(parts) == 1 else Every(tuple(parts))


@lru_cache(maxsize=16_384)
def _boolean(text: str) -> Leaf:
    """Test a boolean expression as a whole."""
    return Leaf(text, text, IsTrue())
