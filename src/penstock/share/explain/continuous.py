"""Explains the continuous queries of a stream: how rows are told apart for them, and what is computed of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.evaluate.typed import Condition, Definition
from penstock.model.counts import counted
from penstock.printable import shown
from penstock.share.conditions.condition_cells import tell_apart
from penstock.share.conditions.listed_fragments import with_listed_fragments
from penstock.share.continuous import groups_of_rows, plan_continuous
from penstock.share.explain.cells import PredicatesPlan, explain_cells
from penstock.share.explain.operators import OperatorsPlan
from penstock.share.plan import condition_of

MOST_NAMES: Final = 8  # of a long list, in text


@dataclass(frozen=True, slots=True)
class TakenRowsPlan:
    """Queries without a window: each distinct condition with its queries, and each distinct expression."""

    conditions: tuple[tuple[str, tuple[str, ...]], ...]
    expressions: tuple[str, ...]  # computed once, of rows that some query takes
    predicates: PredicatesPlan | None
    operators: OperatorsPlan | None = None  # None: nobody calls an expensive function, or the stream is not at work

    @property
    def queries(self) -> tuple[str, ...]:
        """Name all queries."""
        return tuple(name for _, names in self.conditions for name in names)

    def lines(self) -> list[str]:
        """Print a line for the whole, one for each condition, and how they are told apart."""
        expressions = f"{len(self.expressions):,} expression{'' if len(self.expressions) == 1 else 's'}"
        lines = [f"each row: {counted(len(self.queries), 'query', 'queries')}, {expressions}, stored once"]
        lines += [f"  {shown(text)}: {_listed(names)}" for text, names in self.conditions[:MOST_NAMES]]
        if len(self.conditions) > MOST_NAMES:
            lines.append(f"  … and {len(self.conditions) - MOST_NAMES:,} more conditions")
        told = self.predicates.lines() if self.predicates is not None else []
        told += self.operators.lines() if self.operators is not None else []
        return [*lines, *(f"  {line}" for line in told)]

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        conditions = [{"condition": text, "queries": list(names)} for text, names in self.conditions]
        predicates = None if self.predicates is None else self.predicates.to_dict()
        operators = None if self.operators is None else self.operators.to_dict()
        told = {"conditions": conditions, "expressions": list(self.expressions), "predicates": predicates}
        return {**told, "operators": operators}


def explain_continuous(
    definitions: Sequence[Definition], operators: OperatorsPlan | None = None
) -> TakenRowsPlan | None:
    """Explain the continuous queries among some, and the operators of their stream; None: there are none."""
    mine = [d for d in definitions if d.query.is_continuous]
    if not mine:
        return None
    plan = plan_continuous(mine, "", 0)
    members: dict[Condition, list[str]] = {}
    for one in mine:
        members.setdefault(condition_of(one), []).append(one.name)
    names = [members[condition] for condition in plan.conditions]
    lone = len(members) == 1  # listed twice, so that it is attempted as others are
    cells = with_listed_fragments(tell_apart(plan.layout, groups_of_rows()))
    told = explain_cells(cells, 0, [names[0], []] if lone else names)
    if lone and told is not None:
        told = replace(told, parts=tuple(replace(part, conditions=1) for part in told.parts))
    listed = tuple((str(condition), tuple(found)) for condition, found in members.items())
    return TakenRowsPlan(listed, plan.texts, told, operators)


def _listed(names: Sequence[str]) -> str:
    """List the first names."""
    more = f", … {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(map(shown, names[:MOST_NAMES])) + more
