"""Lists the attributes that a predicate tests, and decides which of them may fail on a row.

Whether computing an expression may fail (overflow, division by zero, a bad cast) decides how it is computed: what
cannot fail is computed as it is, all else is attempted, so that no query fails for another's sake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from penstock.language.binding.canonical import render, strip
from penstock.language.binding.columns_read import is_bare
from penstock.language.grammar.literals import word_set
from penstock.language.grammar.parse import read_canonical
from penstock.language.predicates.constants import constant_of
from penstock.language.predicates.split import Formula, IsTrue, leaves_of

Types = Mapping[str, str]  # canonical text → type as Spark names it

_WHOLE: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATING: Final = frozenset({"double", "float"})
_NUMBERS: Final = _WHOLE | _FLOATING
_PLAIN: Final = _NUMBERS | {"string", "boolean", "date", "timestamp", "timestamp_ntz"}
_OF_TEXT: Final = word_set(
    """upper lower ucase lcase length len char_length character_length trim ltrim rtrim btrim reverse contains
    startswith endswith concat"""
)
_OF_NUMBERS: Final = word_set(
    "sqrt cbrt exp ln log10 log2 log1p sin cos tan atan tanh signum sign isnan degrees radians"
)
_OF_TIMES: Final = word_set(
    "year month day dayofmonth dayofweek dayofyear weekday weekofyear quarter hour minute second unix_micros"
)
_OF_ANYTHING: Final = word_set("isnull isnotnull typeof hash xxhash64")
_ALIKE: Final = word_set("coalesce ifnull nvl if greatest least nullif")
_LOGIC: Final = (exp.And, exp.Or, exp.Not, exp.Paren)
_COMPARED: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.In, exp.Between, exp.Like)


@dataclass(frozen=True, slots=True)
class Attribute:
    """What predicates test: its canonical text, its type as Spark names it, and whether computing it may fail."""

    text: str
    type: str
    may_fail: bool


Attributes = tuple[Attribute, ...]


def texts_to_type(formula: Formula) -> list[str]:
    """List the expressions whose types decide how a formula's tests are made; constants need none."""
    return list(dict.fromkeys(text for leaf in leaves_of(formula) for text in parts_of(leaf.attribute)))


def attributes_of(formula: Formula, types: Types, judged: Mapping[str, bool] = MappingProxyType({})) -> Attributes:
    """List a formula's attributes, and each test as an attribute of its own, for those that stay opaque.

    ``judged`` tells of some expressions whether they may fail.
    """
    found: dict[str, Attribute] = {}

    def fails(text: str) -> bool:
        return judged[text] if text in judged else may_fail(text, types)

    for leaf in leaves_of(formula):
        if not isinstance(leaf.test, IsTrue) and leaf.attribute in types:
            found[leaf.attribute] = Attribute(leaf.attribute, types[leaf.attribute], fails(leaf.attribute))
        found[leaf.text] = Attribute(leaf.text, "boolean", fails(leaf.text))
    return tuple(found.values())


def fallible(texts: Iterable[str], types: Types) -> frozenset[str]:
    """Return the expressions whose computing may fail."""
    return frozenset(text for text in texts if may_fail(text, types))


def parts_of(text: str) -> tuple[str, ...]:
    """List an expression and all expressions in it that are no constants, in canonical text."""
    return _parts(text)


@lru_cache(maxsize=4_096)
def _parts(text: str) -> tuple[str, ...]:
    """List the parts of an expression once."""
    if is_bare(text):
        return (text,)
    return tuple(dict.fromkeys(render(node) for node in _operands(read_canonical(text))))


def _operands(tree: exp.Expr) -> Iterator[exp.Expr]:
    """List a tree's expressions that have a value and are no constants."""
    tree = strip(tree)
    if constant_of(tree) is not None or isinstance(tree, exp.Literal):
        return
    yield tree
    kinds = exp.Column | exp.Cast | exp.Anonymous | exp.Binary | exp.Unary | exp.Case | exp.In | exp.Between | exp.Dot
    if isinstance(tree, exp.Column | exp.Dot):
        return
    for child in tree.iter_expressions():
        if isinstance(child, exp.If):
            for branch in child.iter_expressions():
                yield from _operands(branch)
        elif isinstance(strip(child), kinds):
            yield from _operands(child)


def may_fail(text: str, types: Types) -> bool:
    """Tell whether computing an expression may fail; yes where it is not certain that it cannot."""
    return not is_bare(text) and node_may_fail(read_canonical(text), types)


def node_may_fail(node: exp.Expr, types: Types) -> bool:
    """Tell the same of an expression that is read already."""
    node = strip(node)
    if isinstance(node, exp.Column) or constant_of(node) is not None:
        return False
    if isinstance(node, exp.Dot):
        return node_may_fail(node.this, types)
    if not _allowed(node, types):
        return True
    return any(node_may_fail(child, types) for child in _children(node))


def _children(node: exp.Expr) -> list[exp.Expr]:
    """List the operands of a node."""
    if isinstance(node, exp.Cast):
        return [node.this]
    found: list[exp.Expr] = []
    for child in node.iter_expressions():
        found += list(child.iter_expressions()) if isinstance(child, exp.If) else [child]
    return found


def _allowed(node: exp.Expr, types: Types) -> bool:
    """Tell whether a node cannot fail by itself, its operands being what they are."""
    if isinstance(node, _LOGIC):
        return all(_type(child, types) in ("boolean", "null") for child in _children(node))
    if isinstance(node, exp.Is):
        return isinstance(strip(node.expression), exp.Null) or _type(node.this, types) == "boolean"
    if isinstance(node, _COMPARED):
        return _comparable([_type(child, types) for child in _children(node)])
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        operands = [_type(child, types) for child in _children(node)]
        return bool(set(operands) & _FLOATING) and set(operands) <= _NUMBERS | {"decimal", "null"}
    if isinstance(node, exp.Neg):
        return _type(node.this, types) in _FLOATING
    if isinstance(node, exp.TryCast):
        return True
    if isinstance(node, exp.Cast):
        return _widens(_type(node.this, types), node.args["to"].name.lower())
    if isinstance(node, exp.Case):
        return _branches_agree(node, types)
    return isinstance(node, exp.Anonymous) and _safe_call(node, types)


def _type(node: exp.Expr, types: Types) -> str:
    """Return an operand's type; decimals are all ``decimal``."""
    node = strip(node)
    constant = constant_of(node)
    if constant is not None:
        return {"integer": "int"}.get(constant.kind, constant.kind)
    if isinstance(node, (*_COMPARED, *_LOGIC, exp.Is)):
        return "boolean"
    found = types.get(render(node), "")
    return "decimal" if found.startswith("decimal") else found


def _comparable(operands: list[str]) -> bool:
    """Tell whether values of these types are compared without a cast that may fail."""
    kinds = set(operands) - {"null"}
    return kinds <= _NUMBERS or (len(kinds) == 1 and kinds <= _PLAIN) or kinds <= _FLOATING | {"decimal"}


def _widens(of: str, to: str) -> bool:
    """Tell whether a cast keeps every value."""
    if of == to or (to == "string" and of in _PLAIN | {"decimal"}):
        return True
    if to in ("double", "float"):
        return of in _NUMBERS | {"decimal"}
    order = ["tinyint", "smallint", "int", "bigint"]
    return of in order and to in order and order.index(of) <= order.index(to)


def _branches_agree(node: exp.Case, types: Types) -> bool:
    """Tell whether the branches of a CASE have one type, so that none is cast."""
    if node.this is not None:
        return False
    results = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default")
    kinds = {_type(result, types) for result in [*results, *([default] if default is not None else [])]} - {"null"}
    return len(kinds) <= 1 or kinds <= _NUMBERS


def _safe_call(node: exp.Anonymous, types: Types) -> bool:
    """Tell whether a function cannot fail on operands of these types."""
    name, operands = node.name.lower(), {_type(child, types) for child in node.expressions}
    if name in _OF_TEXT:
        return operands <= {"string", "null"}
    if name in _OF_NUMBERS:
        return operands <= _NUMBERS | {"null"}
    if name in ("abs", "negative", "positive"):
        return operands <= _FLOATING
    if name in _OF_TIMES:
        return operands <= {"date", "timestamp", "timestamp_ntz"}
    if name in _ALIKE:
        kinds = operands - {"null", "boolean"} if name == "if" else operands - {"null"}
        return len(kinds) <= 1 or kinds <= _NUMBERS
    return name in _OF_ANYTHING
