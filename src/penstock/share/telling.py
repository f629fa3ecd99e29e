"""A layout in, the cells that tell its rows apart out: each condition's joins and predicate as one formula."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.language.attributes import Attribute
from penstock.language.literals import quote
from penstock.language.predicates import Every, Formula, Holds, Leaf, read_predicate
from penstock.model.query import Join
from penstock.share.cells import Cells, divide
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


def tell_apart(layout: Layout) -> Cells:
    """Divide the rows of a layout's signed groupings into cells; unsigned ones and lone conditions need none."""
    attributes = {a.text: a for d in layout.plan.definitions for a in d.typed.attributes}
    watched = {condition_of(d) for d in layout.plan.definitions if d.id in layout.attempts}
    formulas: list[list[Formula]] = []
    opaque: list[list[Formula]] = []
    for member in layout.members:
        conditions = () if not member.signed or is_lone(member) else member.grouping.conditions
        for condition in conditions:
            for text in admissions(condition, layout.plan.joins):
                attributes[text] = Attribute(text, "boolean", may_fail=False)
            if condition.where and condition in watched:
                marked = ATTEMPTED + condition.where
                attributes[marked] = Attribute(marked, "boolean", may_fail=False)
        formulas.append([_formula(c, layout.plan.joins, attempted=c in watched) for c in conditions])
        opaque.append([_formula(c, layout.plan.joins, attempted=c in watched, whole=True) for c in conditions])
    return divide(formulas, opaque, attributes)


def _formula(condition: Condition, joins: Sequence[Join], *, attempted: bool, whole: bool = False) -> Formula:
    """Write a whole condition; joins first, so that the predicate is asked only of admitted rows."""
    parts: list[Formula] = [_boolean(text) for text in admissions(condition, joins)]
    if condition.where and attempted:
        parts.append(_boolean(ATTEMPTED + condition.where))
    elif condition.where:
        parts.append(_boolean(condition.where) if whole else read_predicate(condition.where))
    return parts[0] if len(parts) == 1 else Every(tuple(parts))


def _boolean(text: str) -> Leaf:
    """Test a boolean expression as a whole."""
    return Leaf(text, text, Holds())
