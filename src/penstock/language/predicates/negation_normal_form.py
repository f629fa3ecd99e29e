"""Brings a condition into negation normal form: AND and OR over single tests, each of them negated or not.

Negations go down to the tests, which three-valued logic and the order of evaluation allow. Chains of one operator are
flat, and their parts stand in the order in which Spark evaluates them: the parts before one are its guards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.language.binding.canonical import copied, strip

Connective = type[exp.And] | type[exp.Or]
Splits = Callable[[exp.Between], bool]

_OPPOSITES: Final[dict[type[exp.Expr], type[exp.Binary]]] = {
    exp.EQ: exp.NEQ, exp.NEQ: exp.EQ, exp.LT: exp.GTE, exp.GTE: exp.LT, exp.GT: exp.LTE, exp.LTE: exp.GT,
}  # fmt: skip
_MIRRORED: Final[dict[type[exp.Expr], type[exp.Binary]]] = {
    exp.EQ: exp.EQ, exp.NEQ: exp.NEQ, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.GT: exp.LT, exp.LTE: exp.GTE,
    exp.NullSafeEQ: exp.NullSafeEQ,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Atom:
    """A single test, without parentheses around it, or its negation."""

    node: exp.Expr
    negated: bool


@dataclass(frozen=True, slots=True)
class Chain:
    """Parts under AND or OR in the order of evaluation; no part is a chain of the same operator."""

    connective: Connective
    parts: tuple[Atom | Chain, ...]


def negation_normal_form(node: exp.Expr, splits: Splits) -> Atom | Chain:
    """Push the negations of a condition down to its tests; ``splits`` says which BETWEEN is read as two of them."""
    return _formed(node, False, splits)


def opposite(node: exp.Expr) -> exp.Expr | None:
    """Return the comparison that is true where one is false, and unknown where that is; None if there is none."""
    kind = _OPPOSITES.get(type(node))
    return None if kind is None else kind(this=node.this, expression=node.expression)


def mirrored(node: exp.Expr) -> exp.Expr | None:
    """Return a comparison with its sides exchanged, without parentheses around them; None of any other test.

    It means the same where neither side may fail: Spark does not evaluate the right side if the left one is NULL.
    """
    kind = _MIRRORED.get(type(node))
    return None if kind is None else kind(this=strip(node.expression), expression=strip(node.this))


def _formed(node: exp.Expr, negated: bool, splits: Splits) -> Atom | Chain:
    """Bring a condition, or its negation, into the form; without recursing along a chain."""
    node, negated = _bare(node, negated)
    connective = _connective(node, negated, splits)
    if connective is None:
        return Atom(node, negated)
    waiting, parts = [(side, negated) for side in reversed(_sides(node))], []
    while waiting:
        part, turned = _bare(*waiting.pop())
        if _connective(part, turned, splits) is connective:
            waiting += [(side, turned) for side in reversed(_sides(part))]
        else:
            parts.append(_formed(part, turned, splits))
    return Chain(connective, tuple(parts))


def _bare(node: exp.Expr, negated: bool) -> tuple[exp.Expr, bool]:
    """Take parentheses and NOT off."""
    node = strip(node)
    while isinstance(node, exp.Not):
        node, negated = strip(node.this), not negated
    return node, negated


def _connective(node: exp.Expr, negated: bool, splits: Splits) -> Connective | None:
    """Tell how the parts of a condition hang together (De Morgan); None: it is a single test."""
    every = isinstance(node, exp.And) or (isinstance(node, exp.Between) and splits(node))
    if not every and not isinstance(node, exp.Or):
        return None
    return exp.And if every != negated else exp.Or


def _sides(node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """Split AND, OR and BETWEEN in two."""
    if isinstance(node, exp.Between):
        low = exp.GTE(this=copied(node.this), expression=node.args["low"])
        return low, exp.LTE(this=copied(node.this), expression=node.args["high"])
    return node.this, node.expression
