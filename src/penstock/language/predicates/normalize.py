"""Normalizes a WHERE clause, so that predicates which mean the same by their form have the same text.

``b < 2 AND NOT a <= 1`` and ``1 < a AND b < 2`` both become ``a > 1 AND b < 2``. Of the negation normal form,
comparisons take up their negation, constants stand on the right, parts of AND and OR stand in order, each once. Where a
part may fail on a row, the parts before it are its guards: such a chain, and such a test, stay in the order they have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.errors import LanguageError
from penstock.language.binding.canonical import render, strip
from penstock.language.grammar.parse import parse_expression, read_canonical
from penstock.language.predicates.negation_normal_form import (
    Atom,
    Chain,
    Connective,
    mirrored,
    negation_normal_form,
    opposite,
)

MayFail = Callable[[exp.Expr], bool]

SURELY_SHORT: Final = 2_000  # characters in which no limit of the language can be reached
# Values of one of these forms have one type or widen to one in any order, so their order in a list does not matter.
_ALIKE: Final = (re.compile(r"'.*", re.DOTALL), re.compile(r"-?[0-9]{1,18}"), re.compile(r"-?[0-9]{0,9}\.[0-9]{0,9}"))


@dataclass(frozen=True, slots=True)
class _Formula:
    """A test, or parts under AND or OR, as text; ``fails``: some test of it may fail on a row."""

    kind: Connective | None
    parts: tuple[str, ...]
    fails: bool

    @property
    def text(self) -> str:
        """Write the formula."""
        return (" AND " if self.kind is exp.And else " OR ").join(self.parts)

    def within(self, kind: Connective) -> tuple[str, ...]:
        """List the parts that the formula adds to a chain."""
        if self.kind is None or self.kind is kind:
            return self.parts
        return (f"({self.text})",) if self.kind is exp.Or else (self.text,)


def normal(where: str, may_fail: MayFail) -> str:
    """Return the text that stands for a condition and all that mean the same by their form; repeating changes nothing.

    ``may_fail`` is asked whether evaluating a test may fail on some row.
    """
    form = negation_normal_form(read_canonical(where), lambda node: _splits(node, may_fail))
    text = _formula(form, may_fail).text
    return text if len(text) <= SURELY_SHORT or _is_readable(text) else where


def _is_readable(text: str) -> bool:
    """Tell whether a text can be read again: a chain may have grown too long where negations went down."""
    try:
        parse_expression(text)
    except LanguageError:
        return False
    return True


def _formula(form: Atom | Chain, may_fail: MayFail) -> _Formula:
    """Write a condition whose negations are at its tests."""
    if isinstance(form, Atom):
        return _test(form, may_fail)
    return _joined(form.connective, [_formula(part, may_fail) for part in form.parts])


def _joined(kind: Connective, found: Sequence[_Formula]) -> _Formula:
    """Put the parts of a chain together, in order and each once if none may fail."""
    parts = tuple(part for one in found for part in one.within(kind))
    if any(one.fails for one in found):
        return _Formula(kind, parts, True)
    distinct = tuple(sorted(set(parts)))
    # One part that is left of several is not a chain any more, and may continue the chain around it.
    return found[0] if len(distinct) == 1 else _Formula(kind, distinct, False)


def _splits(node: exp.Between, may_fail: MayFail) -> bool:
    """Tell whether BETWEEN is written as two tests: of a column, unless a test may fail."""
    return isinstance(strip(node.this), exp.Column) and not may_fail(node)


def _test(atom: Atom, may_fail: MayFail) -> _Formula:
    """Write a single test, or its negation."""
    node, negated = atom.node, atom.negated
    if negated and (turned := opposite(node)) is not None:
        node, negated = turned, False
    fails = may_fail(node)
    if not fails:
        node = _listed(_right_way_round(node))
    return _Formula(None, (render(exp.Not(this=node) if negated else node),), fails)


def _right_way_round(node: exp.Expr) -> exp.Expr:
    """Put the constant of a comparison on the right; of two that are none, the one whose text is greater."""
    turned = mirrored(node)
    if turned is None:
        return node
    right, left = ((one.find(exp.Column) is None, render(one)) for one in (turned.this, turned.expression))
    return node if left <= right else turned


def _listed(node: exp.Expr) -> exp.Expr:
    """Sort the values of an IN list, each once, if they are alike."""
    if not isinstance(node, exp.In):
        return node
    values = {render(value): value for value in node.expressions}
    if not any(all(form.fullmatch(text) for text in values) for form in _ALIKE):
        return node
    return exp.In(this=node.this, expressions=[values[text] for text in sorted(values)])
