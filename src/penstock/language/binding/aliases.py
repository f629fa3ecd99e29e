"""Writes outputs out where HAVING and ORDER BY name them by their aliases."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.language.binding.canonical import copied, size_of
from penstock.language.binding.joins import From
from penstock.language.binding.keys import complain, has_column
from penstock.language.binding.query_text import Item
from penstock.language.binding.scope import is_aggregate, path_of
from penstock.language.grammar.limits import MAX_NODES


@dataclass(slots=True)
class Aliases:
    """The outputs of a query by name; ``columns_first`` are names of grouped columns that come before an output's."""

    items: Sequence[Item]
    read: From
    columns_first: Collection[str] = ()
    values: dict[str, exp.Expr] = field(init=False)
    sizes: dict[str, int] = field(init=False)
    written: int = 0  # parts of outputs that were put in so far

    def __post_init__(self) -> None:
        """Find the outputs' sizes once: a name may stand often."""
        self.values = {item.name.lower(): item.value for item in self.items}
        self.sizes = {name: size_of(value) for name, value in self.values.items()}

    def written_out(self, node: exp.Expr) -> exp.Expr:
        """Put outputs in place of their names, outside of aggregates."""
        return exp.Paren(this=copied(node)).transform(self._step, copy=False)

    def _step(self, node: exp.Expr) -> exp.Expr:
        """Replace one name."""
        path = path_of(node)
        if path is None or len(path) > 1 or isinstance(node.parent, exp.Dot) or _inside_aggregate(node):
            return node
        name = path[0].name.lower()
        if name not in self.values or (name in self.columns_first and has_column(path[0], self.read)):
            return node
        self.written += self.sizes[name]
        if self.written > MAX_NODES:
            complain(f"expressions of more than {MAX_NODES:,} parts once aliases are written out", node, self.read)
        return exp.Paren(this=copied(self.values[name]))


def _inside_aggregate(node: exp.Expr) -> bool:
    """Say whether a node is part of an aggregate's argument."""
    parent = node.parent
    while parent is not None and not is_aggregate(parent):
        parent = parent.parent
    return parent is not None
