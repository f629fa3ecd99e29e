"""Plans continuous queries: distinct conditions are told apart together, distinct expressions computed once.

To the job that tells rows apart, such queries are a plan of conditions alone, with one grouping. What is answered of
each row stands beside it, by column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from penstock.evaluate.typed import Condition, Definition
from penstock.language.binding.columns_read import is_bare, names_in
from penstock.language.predicates.attributes import Attribute
from penstock.model.schema import Column
from penstock.model.window import Window
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.share.conditions.condition_groups import COPY_WORTH
from penstock.share.layout import Layout, lay_out
from penstock.share.plan import plan_queries

DAY: Final = Window(86_400_000_000, 86_400_000_000)  # any window does: rows are not put together


def groups_of_rows() -> ConditionGroupMemory:
    """Begin to group conditions on rows that are not put together: a part more is a number more, and no copy."""
    return ConditionGroupMemory(COPY_WORTH)


def column_name(place: int) -> str:
    """Name the column of an expression."""
    return f"o{place}"


def part_name(part: int) -> str:
    """Name the column of a row's fragments in a part of the conditions."""
    return f"f{part}"


@dataclass(frozen=True, slots=True)
class ContinuousPlan:
    """The continuous queries of a stream that answer rows, and what is computed for them."""

    definitions: tuple[Definition, ...]
    texts: tuple[str, ...]  # distinct expressions
    types: tuple[pa.DataType, ...]
    columns: Mapping[int, tuple[int, ...]]  # definition → the expressions that are its outputs
    fallible: frozenset[str]  # expressions that may fail on a row
    layout: Layout  # of the conditions

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """List the distinct conditions; a lone one is there twice."""
        return self.layout.members[0].grouping.conditions

    def users(self, text: str) -> list[Definition]:
        """List the queries that answer an expression."""
        place = self.texts.index(text)
        return [d for d in self.definitions if place in self.columns[d.id]]


def plan_continuous(
    definitions: Sequence[Definition], time: str, version: int, doubtful: tuple[Column, ...] = ()
) -> ContinuousPlan:
    """Plan queries; what reads a ``doubtful`` column may fail where that could not be computed."""
    texts: dict[str, int] = {}
    types: list[pa.DataType] = []
    columns, fallible = dict[int, tuple[int, ...]](), set[str]()
    doubts = frozenset(column.name for column in doubtful if column.name != time)
    for one in definitions:
        places = []
        for text, found in zip(one.query.keys, one.typed.key_types, strict=True):
            if text not in texts:
                texts[text] = len(texts)
                types.append(found)
            places.append(texts[text])
        named = [places[int(output.expression.strip("`")[1:])] for output in one.query.outputs]
        columns[one.id] = tuple(named)
        fallible |= {text for text in one.query.keys if not is_bare(text) and text in one.typed.fallible}
        fallible |= {text for text in one.query.keys if doubts and not doubts.isdisjoint(names_in(text))}
    layout = _of_conditions([_bare(d, doubts) for d in definitions], time, version, doubtful)
    return ContinuousPlan(tuple(definitions), tuple(texts), tuple(types), columns, frozenset(fallible), layout)


def _of_conditions(bare: Sequence[Definition], time: str, version: int, doubtful: tuple[Column, ...]) -> Layout:
    """Lay out conditions alone; only rows that one of them takes are wanted.

    A lone condition is listed twice: jobs ask a lone one as a whole, without an attempt.
    """
    whole = lay_out(plan_queries(bare, "shared paired", version), time, None, doubtful)
    member = whole.members[0]
    conditions = member.grouping.conditions
    if len(conditions) == 1:
        conditions = (*conditions, *conditions)
    grouping = replace(member.grouping, conditions=conditions)
    return replace(whole, members=(replace(member, grouping=grouping, carrier=False, signed=True),))


def _bare(definition: Definition, doubts: frozenset[str]) -> Definition:
    """Take from a query all but its condition."""
    typed = definition.typed
    query = replace(typed.query, keys=(), outputs=(), window=DAY, options=())
    attributes = tuple(_doubted(one, doubts) for one in typed.attributes) if doubts else typed.attributes
    bare = replace(typed, query=query, key_types=(), output_types=(), attributes=attributes, fallible=frozenset())
    return replace(definition, typed=bare, handover=None)


def _doubted(attribute: Attribute, doubts: frozenset[str]) -> Attribute:
    """Let an attribute be attempted where it reads a column that may not be there."""
    return attribute if doubts.isdisjoint(names_in(attribute.text)) else replace(attribute, may_fail=True)
