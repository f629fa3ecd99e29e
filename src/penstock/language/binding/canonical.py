"""Writes a syntax tree as canonical Spark SQL, with only the parentheses it needs.

Equal trees give equal text, whatever the user's spaces, case, aliases and redundant parentheses were. The text never
contains a piece of the user's own: names are quoted and literals escaped anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from sqlglot import exp

from penstock.language.grammar.literals import quote, write_string
from penstock.language.grammar.operators import (
    ADDITIVE,
    AND,
    BINARY,
    BIT_OR,
    COMPARISON,
    NOT,
    OR,
    PREDICATE,
    UNARY,
)

E = TypeVar("E", bound=exp.Expr)
Naming = Callable[[exp.Column], str]
PRIMARY: Final = UNARY + 1

_LEVELS: Final[dict[type[exp.Expr], int]] = {kind: level for level, kind in BINARY.values()}
_SYMBOLS: Final[dict[type[exp.Expr], str]] = {
    exp.Or: "OR", exp.And: "AND", exp.EQ: "=", exp.NullSafeEQ: "<=>", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=",
    exp.GT: ">", exp.GTE: ">=", exp.BitwiseOr: "|", exp.BitwiseXor: "^", exp.BitwiseAnd: "&", exp.Add: "+",
    exp.Sub: "-", exp.DPipe: "||", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "DIV",
    exp.Like: "LIKE", exp.ILike: "ILIKE", exp.RegexpLike: "RLIKE",
}  # fmt: skip


def quoted_name(column: exp.Column) -> str:
    """Name a column by its own quoted identifier."""
    return quote(column.name)


def render(node: exp.Expr, naming: Naming = quoted_name) -> str:
    """Write an expression as canonical Spark SQL."""
    return _render(node, naming)[0]


def conjunction(nodes: Sequence[exp.Expr], naming: Naming = quoted_name) -> str:
    """Write conditions joined by AND, in order."""
    lowest = AND if len(nodes) > 1 else OR
    return " AND ".join(_operand(node, naming, lowest) for node in nodes)


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """Split a condition at its top-level ANDs, in order."""
    if node is None:
        return []
    out: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = strip(waiting.pop())
        if isinstance(part, exp.And):
            waiting += [part.expression, part.this]
        else:
            out.append(part)
    return out


def copied(tree: E) -> E:
    """Copy a tree; a node's notes, such as its place, are copied, what they say is shared: it never changes.

    Sqlglot's own way copies places number by number, which takes most of its time.
    """
    root = type(tree)()
    waiting: list[tuple[exp.Expr, exp.Expr]] = [(tree, root)]
    while waiting:
        node, copy = waiting.pop()
        if notes := node.meta:
            copy.meta.update(notes)
        for name, value in node.args.items():
            copy.args[name] = _argument(value, copy, name, waiting)
    return root


def _argument(value: object, parent: exp.Expr, name: str, waiting: list[tuple[exp.Expr, exp.Expr]]) -> object:
    """Return an argument of a copy; nodes are empty, and wait to be filled."""
    if isinstance(value, exp.Expr):
        return _empty(value, parent, name, None, waiting)
    if type(value) is list:
        return [
            _empty(one, parent, name, place, waiting) if isinstance(one, exp.Expr) else one
            for place, one in enumerate(value)
        ]
    return value


def _empty(
    node: exp.Expr, parent: exp.Expr, name: str, place: int | None, waiting: list[tuple[exp.Expr, exp.Expr]]
) -> exp.Expr:
    """Return a node of the same kind where it belongs, without what it holds."""
    copy = type(node)()
    copy.parent, copy.arg_key, copy.index = parent, name, place
    waiting.append((node, copy))
    return copy


def sizes_of(tree: exp.Expr) -> dict[int, int]:
    """Count the nodes under every node of a tree, itself included, by identity."""
    sizes: dict[int, int] = {}
    for node in reversed(list(tree.bfs())):  # children before their parents
        sizes[id(node)] = 1 + sum(sizes[id(child)] for child in node.iter_expressions())
    return sizes


def size_of(tree: exp.Expr) -> int:
    """Count the nodes of a tree."""
    return sum(1 for _ in tree.walk())


def strip(node: exp.Expr) -> exp.Expr:
    """Take parentheses off."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _render(node: exp.Expr, naming: Naming) -> tuple[str, int]:
    """Write a node, and say how tightly it binds."""
    node = strip(node)
    if type(node) in _LEVELS:
        return _binary(node, naming)
    if isinstance(node, exp.Not):
        return _negation(node, naming)
    if isinstance(node, exp.Neg | exp.BitwiseNot):
        sign = "-" if isinstance(node, exp.Neg) else "~"
        return sign + _operand(node.this, naming, PRIMARY), UNARY
    if isinstance(node, exp.Is | exp.In | exp.Between | exp.Like | exp.ILike | exp.RegexpLike | exp.Escape):
        return _predicate(node, naming, ""), PREDICATE
    return _primary(node, naming), PRIMARY


def _operand(node: exp.Expr, naming: Naming, lowest: int) -> str:
    """Write an operand, in parentheses if it binds less tightly than its operator needs."""
    text, level = _render(node, naming)
    return text if level >= lowest else f"({text})"


def _binary(node: exp.Expr, naming: Naming) -> tuple[str, int]:
    """Write a chain of binary operators without recursing along its left side."""
    spine: list[exp.Expr] = []
    while type(node) in _LEVELS:
        spine.append(node)
        node = strip(node.this)
    text, level = _render(node, naming)
    for parent in reversed(spine):
        own = _LEVELS[type(parent)]
        left = text if _fits_left(node, level, parent, own) else f"({text})"
        text, level = f"{left} {_SYMBOLS[type(parent)]} {_right(parent, own, naming)}", own
        node = parent
    return text, level


def _fits_left(left: exp.Expr, level: int, parent: exp.Expr, own: int) -> bool:
    """Say whether a left operand needs no parentheses.

    Mixtures that readers and other parsers take differently get parentheses though Spark needs none: comparisons of
    comparisons, ``||`` beside ``+``, and different bit operators.
    """
    if own == COMPARISON or (BIT_OR <= own < ADDITIVE and type(left) is not type(parent)):
        return level >= ADDITIVE
    if own == ADDITIVE and level == ADDITIVE:
        return isinstance(left, exp.DPipe) == isinstance(parent, exp.DPipe)
    return level >= own


def _right(parent: exp.Expr, own: int, naming: Naming) -> str:
    """Write a right operand; AND and OR are associative, so the same operator on the right joins the chain."""
    right = strip(parent.expression)
    if own in (OR, AND) and type(right) is type(parent):
        return _render(right, naming)[0]
    return _operand(right, naming, ADDITIVE if COMPARISON <= own < ADDITIVE else own + 1)


def _negation(node: exp.Expr, naming: Naming) -> tuple[str, int]:
    """Write NOT, inside the predicate where SQL has a form for it."""
    inner = strip(node.this)
    if isinstance(inner, exp.Is | exp.In | exp.Between | exp.Like | exp.ILike | exp.RegexpLike | exp.Escape):
        return _predicate(inner, naming, "NOT "), PREDICATE
    return f"NOT {_operand(inner, naming, PRIMARY)}", NOT


def _predicate(node: exp.Expr, naming: Naming, negation: str) -> str:
    """Write IS, IN, BETWEEN, LIKE and their negations."""
    if isinstance(node, exp.Escape):
        return f"{_predicate(node.this, naming, negation)} ESCAPE {_render(node.expression, naming)[0]}"
    left = _operand(node.this, naming, ADDITIVE)
    if isinstance(node, exp.Is):
        return f"{left} IS {negation}{_render(node.expression, naming)[0]}"
    if isinstance(node, exp.In):
        return f"{left} {negation}IN ({_listed(node.expressions, naming)})"
    if isinstance(node, exp.Between):
        low, high = (_operand(node.args[end], naming, ADDITIVE) for end in ("low", "high"))
        return f"{left} {negation}BETWEEN {low} AND {high}"
    return f"{left} {negation}{_SYMBOLS[type(node)]} {_operand(node.expression, naming, ADDITIVE)}"


def _listed(nodes: list[exp.Expr], naming: Naming) -> str:
    """Write expressions separated by commas."""
    return ", ".join(_render(node, naming)[0] for node in nodes)


def _primary(node: exp.Expr, naming: Naming) -> str:
    """Write a node that binds by itself."""
    match node:
        case exp.Column():
            return naming(node)
        case exp.Anonymous():
            return f"{node.name.lower()}({_listed(node.expressions, naming)})"
        case exp.Dot():
            return f"{_operand(node.this, naming, PRIMARY)}.{quote(node.expression.name)}"
        case exp.Bracket():
            return f"{_operand(node.this, naming, PRIMARY)}[{_listed(node.expressions, naming)}]"
        case exp.Case():
            return _case(node, naming)
        case exp.Cast() if node.meta.get("literal"):
            return f"{node.args['to'].name.upper()} {_constant(node.this)}"
        case exp.TryCast() | exp.Cast():
            function = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
            return f"{function}({_render(node.this, naming)[0]} AS {node.args['to'].name})"
        case exp.Distinct():
            return f"DISTINCT {_listed(node.expressions, naming)}"
        case exp.Extract():
            return f"EXTRACT({node.name} FROM {_render(node.expression, naming)[0]})"
        case _:
            return _constant(node)


def _constant(node: exp.Expr) -> str:
    """Write a leaf of the tree."""
    match node:
        case exp.Literal():
            return write_string(node.name) if node.is_string else node.name
        case exp.Null():
            return "NULL"
        case exp.Boolean():
            return "TRUE" if node.this else "FALSE"
        case exp.HexString():
            return f"X'{node.name}'"
        case exp.Interval():
            unit = node.args.get("unit")
            return f"INTERVAL {write_string(node.this.name)}" + (f" {unit.name}" if unit else "")
        case exp.Star():
            return "*"
    raise AssertionError(f"the grammar has no {type(node).__name__}")


def _case(node: exp.Case, naming: Naming) -> str:
    """Write CASE."""
    parts = ["CASE"]
    if node.this is not None:
        parts.append(_render(node.this, naming)[0])
    for branch in node.args["ifs"]:
        parts.append(f"WHEN {_render(branch.this, naming)[0]} THEN {_render(branch.args['true'], naming)[0]}")
    default = node.args.get("default")
    if default is not None:
        parts.append(f"ELSE {_render(default, naming)[0]}")
    return " ".join([*parts, "END"])
