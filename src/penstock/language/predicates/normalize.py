"""Normalizes a WHERE clause, so that predicates which mean the same by their form have the same text.

``b < 2 AND NOT a <= 1`` and ``1 < a AND b < 2`` both become ``a > 1 AND b < 2``. Negations go down to the tests, which
three-valued logic allows, constants stand on the right, parts of AND and OR stand in order, each once. Where a part may
fail on a row, the parts before it are its guards: such a chain, and such a test, stay in the order they have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.errors import LanguageError
from penstock.language.binding.canonical import render, strip
from penstock.language.grammar.parse import parse_expression

MayFail = Callable[[str], bool]
Kind = type[exp.And] | type[exp.Or] | None

SURELY_SHORT: Final = 2_000  # characters in which no limit of the language can be reached
_OPPOSITES: Final[dict[type[exp.Expr], type[exp.Binary]]] = {
    exp.EQ: exp.NEQ, exp.NEQ: exp.EQ, exp.LT: exp.GTE, exp.GTE: exp.LT, exp.GT: exp.LTE, exp.LTE: exp.GT,
}  # fmt: skip
_MIRRORED: Final[dict[type[exp.Expr], type[exp.Binary]]] = {
    exp.EQ: exp.EQ, exp.NEQ: exp.NEQ, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.GT: exp.LT, exp.LTE: exp.GTE,
    exp.NullSafeEQ: exp.NullSafeEQ,
}  # fmt: skip
# Values of one of these forms have one type or widen to one in any order, so their order in a list does not matter.
_ALIKE: Final = (re.compile(r"'.*", re.DOTALL), re.compile(r"-?[0-9]{1,18}"), re.compile(r"-?[0-9]{0,9}\.[0-9]{0,9}"))


@dataclass(frozen=True, slots=True)
class _Formula:
    """A test, or parts under AND or OR, as text; ``fails``: some test of it may fail on a row."""

    kind: Kind
    parts: tuple[str, ...]
    fails: bool

    @property
    def text(self) -> str:
        """Write the formula."""
        return (" AND " if self.kind is exp.And else " OR ").join(self.parts)

    def within(self, kind: Kind) -> tuple[str, ...]:
        """List the parts that the formula adds to a chain."""
        if self.kind is None or self.kind is kind:
            return self.parts
        return (f"({self.text})",) if self.kind is exp.Or else (self.text,)


def normal(where: str, may_fail: MayFail) -> str:
    """Return the text that stands for a condition and all that mean the same by their form; repeating changes nothing.

    ``may_fail`` is asked, with the canonical text of a test, whether evaluating it may fail on some row.
    """
    text = _formula(parse_expression(where), False, may_fail).text
    return text if len(text) <= SURELY_SHORT or _is_readable(text) else where


def _is_readable(text: str) -> bool:
    """Tell whether a text can be read again: a chain may have grown too long where negations went down."""
    try:
        parse_expression(text)
    except LanguageError:
        return False
    return True


def _formula(node: exp.Expr, negated: bool, may_fail: MayFail) -> _Formula:
    """Bring a condition, or its negation, into its normal form."""
    node, negated = _bare(node, negated)
    kind = _kind_of(node, negated, may_fail)
    if kind is None:
        return _test(node, negated, may_fail)
    found = [_formula(part, turned, may_fail) for part, turned in _chain(node, negated, kind, may_fail)]
    return _joined(kind, found)


def _joined(kind: Kind, found: Sequence[_Formula]) -> _Formula:
    """Put the parts of a chain together, in order and each once if none may fail."""
    parts = tuple(part for one in found for part in one.within(kind))
    if any(one.fails for one in found):
        return _Formula(kind, parts, True)
    distinct = tuple(sorted(set(parts)))
    # One part that is left of several is not a chain any more, and may continue the chain around it.
    return found[0] if len(distinct) == 1 else _Formula(kind, distinct, False)


def _bare(node: exp.Expr, negated: bool) -> tuple[exp.Expr, bool]:
    """Take parentheses and NOT off."""
    node = strip(node)
    while isinstance(node, exp.Not):
        node, negated = strip(node.this), not negated
    return node, negated


def _kind_of(node: exp.Expr, negated: bool, may_fail: MayFail) -> Kind:
    """Tell how the parts of a condition hang together; None: it is a single test."""
    if isinstance(node, exp.Between):
        plain = isinstance(strip(node.this), exp.Column) and not may_fail(render(node))
        return (exp.Or if negated else exp.And) if plain else None
    if isinstance(node, exp.And | exp.Or):
        return exp.And if isinstance(node, exp.And) != negated else exp.Or
    return None


def _chain(node: exp.Expr, negated: bool, kind: Kind, may_fail: MayFail) -> list[tuple[exp.Expr, bool]]:
    """Flatten a chain without recursing along it; each part with whether it is negated, in order of evaluation."""
    waiting, parts = [(node, negated)], []
    while waiting:
        part, turned = _bare(*waiting.pop())
        if _kind_of(part, turned, may_fail) is not kind:
            parts.append((part, turned))
        else:
            waiting += [(side, turned) for side in reversed(_sides(part))]
    return parts


def _sides(node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """Split AND, OR and BETWEEN in two."""
    if isinstance(node, exp.Between):
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"])
        return low, exp.LTE(this=node.this.copy(), expression=node.args["high"])
    return node.this, node.expression


def _test(node: exp.Expr, negated: bool, may_fail: MayFail) -> _Formula:
    """Write a single test, or its negation."""
    if negated and type(node) in _OPPOSITES:
        node, negated = _OPPOSITES[type(node)](this=node.this, expression=node.expression), False
    fails = may_fail(render(node))
    if not fails:
        node = _turned(node) if type(node) in _MIRRORED else _listed(node)
    return _Formula(None, (render(exp.Not(this=node) if negated else node),), fails)


def _turned(node: exp.Expr) -> exp.Expr:
    """Put the constant of a comparison on the right; of two that are none, the one whose text is greater."""
    left, right = strip(node.this), strip(node.expression)
    places = [(one.find(exp.Column) is None, render(one)) for one in (left, right)]
    return node if places[0] <= places[1] else _MIRRORED[type(node)](this=right, expression=left)


def _listed(node: exp.Expr) -> exp.Expr:
    """Sort the values of an IN list, each once, if they are alike."""
    if not isinstance(node, exp.In):
        return node
    values = {render(value): value for value in node.expressions}
    if not any(all(form.fullmatch(text) for text in values) for form in _ALIKE):
        return node
    return exp.In(this=node.this, expressions=[values[text] for text in sorted(values)])
