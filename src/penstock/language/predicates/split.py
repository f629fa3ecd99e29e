"""Splits a WHERE clause into a formula of AND and OR over single tests of attributes.

An attribute is any scalar expression; a test compares it with constants. What is no such test (several columns, user
functions, odd forms) is opaque: the attribute is the whole boolean expression, and the test is that it holds.
A negated test turns its outcome, and keeps its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Literal

from sqlglot import exp

from penstock.language.binding.canonical import render, strip
from penstock.language.grammar.parse import read_canonical
from penstock.language.predicates.constants import NULL, Constant, constant_of
from penstock.language.predicates.negation_normal_form import Atom, Chain, mirrored, negation_normal_form, opposite

Operator = Literal["=", "<", "<=", ">", ">="]
Turns = tuple[int, int, int, int]

# What a test may come to; the numbers are positions in the turns below.
FALSE, TRUE, UNKNOWN, FAILED = range(4)
AS_IT_IS: Final[Turns] = (FALSE, TRUE, UNKNOWN, FAILED)
NOT: Final[Turns] = (TRUE, FALSE, UNKNOWN, FAILED)
IS_NULL: Final[Turns] = (FALSE, FALSE, TRUE, FAILED)
IS_TRUE: Final[Turns] = (FALSE, TRUE, FALSE, FAILED)
IS_FALSE: Final[Turns] = (TRUE, FALSE, FALSE, FAILED)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The attribute compared with one constant."""

    operator: Operator
    constant: Constant


@dataclass(frozen=True, slots=True)
class OneOf:
    """The attribute is one of some constants."""

    constants: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """The attribute, a string, begins with a text."""

    text: str


@dataclass(frozen=True, slots=True)
class Missing:
    """The attribute is NULL."""


@dataclass(frozen=True, slots=True)
class IsTrue:
    """The attribute, a boolean, is true."""


Test = Comparison | OneOf | Prefix | Missing | IsTrue


@dataclass(frozen=True, slots=True)
class Leaf:
    """One test of one attribute; ``turns`` says what becomes of its outcome (NOT, IS NULL, IS TRUE …)."""

    text: str  # the test as a boolean expression, before its turns
    attribute: str
    test: Test
    turns: Turns = AS_IT_IS
    _hash: int = field(init=False, compare=False, repr=False)  # asked for at every change of a plan

    def __post_init__(self) -> None:
        """Compute the hash once."""
        object.__setattr__(self, "_hash", hash((self.text, self.attribute, self.test, self.turns)))

    def __hash__(self) -> int:
        """Return the hash."""
        return self._hash

    def turned(self, turns: Turns) -> Leaf:
        """Apply further turns to the outcome."""
        false, true, unknown, failed = self.turns
        return replace(self, turns=(turns[false], turns[true], turns[unknown], turns[failed]))

    @property
    def opaque(self) -> Leaf:
        """Return the same test with the whole expression as its attribute."""
        return replace(self, attribute=self.text, test=IsTrue())


@dataclass(frozen=True, slots=True)
class Every:
    """All parts hold, evaluated in order up to the first that is false."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Some part holds, evaluated in order up to the first that is true."""

    parts: tuple[Formula, ...]


Formula = Leaf | Every | Either


@lru_cache(maxsize=32_768)  # ten thousand queries, as they are written and in the one form of all
def read_predicate(text: str) -> Formula:
    """Read the canonical text of a predicate."""
    return _formula(_formed(read_canonical(text)))


def leaves_of(formula: Formula) -> Iterator[Leaf]:
    """List the tests of a formula in order."""
    if isinstance(formula, Leaf):
        yield formula
        return
    for part in formula.parts:
        yield from leaves_of(part)


def _formula(form: Atom | Chain) -> Formula:
    """Read a boolean expression whose negations are at its tests."""
    if isinstance(form, Atom):
        leaf = _leaf(form.node)
        return leaf.turned(NOT) if form.negated else leaf
    parts = tuple(_formula(part) for part in form.parts)
    return Every(parts) if form.connective is exp.And else Either(parts)


def _formed(node: exp.Expr) -> Atom | Chain:
    """Bring an expression into negation normal form, every BETWEEN as two comparisons."""
    return negation_normal_form(node, lambda _: True)


def _leaf(node: exp.Expr) -> Leaf:
    """Read a single test."""
    found = None
    match node:
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            found = _comparison(node)
        case exp.NullSafeEQ():
            found = _same(node)
        case exp.In():
            found = _one_of(node)
        case exp.Like():
            found = _like(node)
        case exp.Is():
            found = _is(node)
    text = render(node)
    return found or Leaf(text, text, IsTrue())


_COMPARISONS: Final[dict[type[exp.Expr], Operator]] = {
    exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip


def _with_constant(node: exp.Expr) -> tuple[exp.Expr, Constant] | None:
    """Read a comparison with a constant on either side: with the constant on the right, and the constant's value."""
    turned = node if constant_of(node.expression) is not None else mirrored(node)
    assert turned is not None, "only comparisons come here"
    constant = constant_of(turned.expression)
    return None if constant is None or constant_of(turned.this) is not None else (turned, constant)


def _comparison(node: exp.Expr) -> Leaf | None:
    """Read a comparison with a constant; its text keeps the order of the sides."""
    equal = opposite(node) if isinstance(node, exp.NEQ) else None
    plain, turns = (node, AS_IT_IS) if equal is None else (equal, NOT)
    found = _with_constant(plain)
    if found is None:
        return None
    turned, constant = found
    return Leaf(render(plain), render(turned.this), Comparison(_COMPARISONS[type(turned)], constant), turns)


def _same(node: exp.NullSafeEQ) -> Leaf | None:
    """Read ``a <=> constant``: true or false, never unknown."""
    found = _with_constant(node)
    if found is None:
        return None
    turned, constant = found
    attribute = render(turned.this)
    if constant == NULL:
        return Leaf(f"isnull({attribute})", attribute, Missing())
    plain = exp.EQ(this=turned.this, expression=turned.expression)
    return Leaf(render(plain), attribute, Comparison("=", constant), IS_TRUE)


def _one_of(node: exp.In) -> Leaf | None:
    """Read ``a IN (constants)``."""
    constants = [constant_of(strip(one)) for one in node.expressions]
    if not constants or constant_of(strip(node.this)) is not None:
        return None
    known = tuple(one for one in constants if one is not None)
    return Leaf(render(node), render(node.this), OneOf(known)) if len(known) == len(constants) else None


def _like(node: exp.Like) -> Leaf | None:
    """Read ``a LIKE 'text%'`` and ``a LIKE 'text'``; other patterns are opaque."""
    pattern = strip(node.expression)
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or constant_of(strip(node.this)) is not None:
        return None
    text = pattern.name
    open_ended = text.endswith("%")
    fixed = text[:-1] if open_ended else text
    if any(sign in fixed for sign in "%_\\"):
        return None
    test: Test = Prefix(fixed) if open_ended else Comparison("=", Constant("string", fixed))
    return Leaf(render(node), render(node.this), test)


def _is(node: exp.Is) -> Leaf | None:
    """Read IS NULL, IS TRUE and IS FALSE of an attribute or of a single test."""
    value = strip(node.expression)
    if isinstance(value, exp.Boolean):
        turns: Turns = IS_TRUE if value.this else IS_FALSE
    elif isinstance(value, exp.Null):
        turns = IS_NULL
    else:
        return None
    inner = strip(node.this)
    if isinstance(inner, exp.And | exp.Or | exp.Not | exp.Between):
        formula = _formula(_formed(inner))
        return formula.turned(turns) if isinstance(formula, Leaf) else None
    if isinstance(inner, (*_COMPARISONS, exp.NEQ, exp.NullSafeEQ, exp.In, exp.Like, exp.Is)):
        return _leaf(inner).turned(turns)
    attribute = render(inner)
    if constant_of(inner) is not None:
        return None
    if isinstance(value, exp.Null):
        return Leaf(f"isnull({attribute})", attribute, Missing())
    return Leaf(attribute, attribute, IsTrue(), turns)
