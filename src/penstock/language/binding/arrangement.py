"""Resolves DISTINCT, ORDER BY, LIMIT and OFFSET: which of a window's answer rows are given, and in what order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from sqlglot import exp

from penstock.errors import Unsupported
from penstock.language.binding.aliases import Aliases
from penstock.language.binding.canonical import copied, strip
from penstock.language.binding.joins import From
from penstock.language.binding.keys import Listed, complain, has_column
from penstock.language.binding.query_text import Arrangement, OrderItem
from penstock.language.binding.scope import WINDOW_COLUMNS, is_aggregate, path_of, resolve
from penstock.language.binding.spark_window import is_window
from penstock.language.grammar.cursor import place_of, placed
from penstock.language.options import Value, revises
from penstock.model.query import Output
from penstock.model.window import RowsWindow, SessionWindow

SELECT_IT: Final = "Select what you order by."
_CONSTANTS: Final = (exp.Literal, exp.Null, exp.Boolean)


def grouped_by_outputs(tree: exp.Select, listed: Listed) -> exp.Select:
    """Turn SELECT DISTINCT without aggregates into GROUP BY all outputs, which is the same."""
    if not tree.args.get("distinct") or tree.args.get("group") or tree.args.get("having"):
        return tree
    items = [item for item in listed if item is not None]
    if any(is_aggregate(part) for item in items for part in item.value.walk()):
        return tree
    positions: list[exp.Expr] = []
    for number, (item, node) in enumerate(zip(listed, tree.expressions, strict=True), 1):
        if item is not None and not isinstance(strip(item.value), _CONSTANTS):
            positions.append(placed(exp.Literal.number(number), place_of(node) or (0, 1)))
    if not positions:
        return tree
    copy = copied(tree)
    copy.set("group", exp.Group(expressions=positions))
    copy.set("distinct", None)
    return copy


def is_distinct(tree: exp.Select, outputs: Sequence[Output], keys: int, *, grouped: bool, sets: bool) -> bool:
    """Tell whether DISTINCT leaves anything out: groups of which the answers show all keys differ anyway."""
    if not tree.args.get("distinct") or not grouped:
        return False
    shown = {output.expression for output in outputs}
    return sets or any(f"`k{number}`" not in shown for number in range(keys))


def row_count(tree: exp.Select, clause: str) -> int | None:
    """Return the number after LIMIT or OFFSET."""
    found = tree.args.get(clause)
    return None if found is None else int(found.expression.name)


def read_order(tree: exp.Select, listed: Listed, read: From) -> list[OrderItem]:
    """Resolve ORDER BY: a position, else an output, else a column or an expression over both.

    The window's own times are the same for all rows of an answer, so they order nothing.
    """
    clause = tree.args.get("order")
    aliases = Aliases([item for item in listed if item is not None], read)
    found = [_order_item(key, listed, aliases, read) for key in clause.expressions] if clause else []
    return [item for item in found if item is not None]


def _order_item(key: exp.Expr, listed: Listed, aliases: Aliases, read: From) -> OrderItem | None:
    """Resolve one expression; None: it is the window's start or end."""
    node, descending = strip(key.this), bool(key.args.get("desc"))
    value = _position(node, listed, read) if _is_position(node) else _value(node, aliases, read)
    if value is None or is_window(value) or (isinstance(value, exp.Dot) and is_window(value.this)):
        if descending:
            what, hint = "answers come in the order of their windows, oldest first", "Order by other outputs."
            complain(what, node, read, Unsupported, hint)
        return None
    if isinstance(value, _CONSTANTS):
        complain("ordering by a constant is not available", node, read, Unsupported)
    return OrderItem(value, descending, bool(key.args.get("nulls_first")))


def _is_position(node: exp.Expr) -> bool:
    """Say whether a node is a whole number."""
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()


def _position(node: exp.Expr, listed: Listed, read: From) -> exp.Expr | None:
    """Return the output that ORDER BY 1 means; None: a column of the window."""
    position = int(node.name) if len(node.name) < 6 else 0
    if not 1 <= position <= len(listed):
        complain(f"ORDER BY {node.name[:20]}: there are {len(listed)} outputs", node, read)
    item = listed[position - 1]
    return None if item is None else copied(item.value)


def _value(node: exp.Expr, aliases: Aliases, read: From) -> exp.Expr | None:
    """Resolve an expression; None: a column of the window."""
    path = path_of(node)
    if path is not None and len(path) == 1 and not has_column(path[0], read):
        name = path[0].name.lower()
        if name in WINDOW_COLUMNS:
            return None
        if name == "all" and not path[0].args.get("quoted") and name not in aliases.values:
            complain("ORDER BY ALL is not available", node, read, Unsupported, "Name the outputs.")
    return strip(resolve(aliases.written_out(node), read.scope))


@dataclass(frozen=True, slots=True)
class ArrangementChecks:
    """Refuses what would choose nothing, or would not tell later what was chosen."""

    tree: exp.Select  # as written
    read: From
    options: Sequence[tuple[str, Value]]

    def check(self, arranged: Arrangement) -> None:
        """Check all that the clauses say."""
        place, revised = place_of(self.tree.expressions[0]), revises(self.options)
        if arranged.limit == 0:
            hint = "It would answer nothing: pause the query, or drop it."
            self._refuse("LIMIT 0", hint, place_of(self.tree.args["limit"]))
        window = self.read.window
        if isinstance(window, RowsWindow) and window.partition and self._is_arranged():
            what = "DISTINCT, ORDER BY or LIMIT over a window with PARTITION BY"
            self._refuse(what, "An answer is of one part; within it, take top(k, x, weight).", place)
        if isinstance(window, SessionWindow) and self._is_arranged():
            what = "DISTINCT, ORDER BY or LIMIT over sessions"
            self._refuse(what, "A session is of one group; within it, take top(k, x, weight).", place)
        if arranged.distinct and (revised or ("emit", "change") in self.options):
            what = f"SELECT DISTINCT beside {'late' if revised else 'emit'} = '{'revise' if revised else 'change'}'"
            self._refuse(what, "Select all that you group by: then answers differ anyway.", place)
        hidden = any(item.output is None for item in arranged.order)
        if hidden and self.tree.args.get("distinct"):
            self._refuse("DISTINCT with ORDER BY of what is not selected", SELECT_IT, place_of(self.tree.args["order"]))
        if hidden and revised:
            what = "late = 'revise' with ORDER BY of what is not selected"
            self._refuse(what, SELECT_IT, place_of(self.tree.args["order"]))

    def _is_arranged(self) -> bool:
        """Say whether one of the clauses is there."""
        return any(self.tree.args.get(clause) for clause in ("distinct", "order", "limit", "offset"))

    def _refuse(self, what: str, hint: str, place: tuple[int, int] | None) -> NoReturn:
        """Raise that something is not available."""
        raise Unsupported(f"{what} is not available", text=self.read.scope.text, place=place, hint=hint)
