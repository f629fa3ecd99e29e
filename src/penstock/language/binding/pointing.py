"""Lets an error about an expression point to where a SELECT has it."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import LanguageError
from penstock.language.binding.canonical import render
from penstock.language.grammar.cursor import place_of
from penstock.language.statements import Select


def pointing(error: LanguageError, select: Select) -> LanguageError:
    """Return an error with its place in the text, if it has none yet and its expression stands there."""
    if error.about is None or error.place is not None:
        return error
    place = _place(error.about, select)
    if place is None:
        return error
    return type(error)(error.what, text=select.text, place=place, hint=error.hint)


def _place(about: str, select: Select) -> tuple[int, int] | None:
    """Find an expression, else what is aggregated or compared in it: binding may have written it anew."""
    parts = [part for clause in _clauses(select.expression) for part in clause.walk()]
    wanted = about.lower()
    for part in parts:
        if _written(part) == wanted:
            return place_of(part)
    within = [(text, place_of(part)) for part in parts if (text := _written(part)) and text in wanted]
    return max(within, key=lambda one: len(one[0]))[1] if within else None


def _clauses(select: exp.Select) -> list[exp.Expr]:
    """List the SELECT list and the clauses that hold expressions."""
    clauses = [select.args.get(name) for name in ("where", "group", "having", "order")]
    return [*select.expressions, *(clause for clause in clauses if clause is not None)]


def _written(part: exp.Expr) -> str:
    """Write a part canonically; nothing for what is no expression."""
    if isinstance(part, exp.Alias | exp.Where | exp.Group | exp.Having | exp.Order | exp.Ordered | exp.Identifier):
        return ""
    try:
        return render(part).lower()
    except (KeyError, AttributeError, TypeError, ValueError):
        return ""
