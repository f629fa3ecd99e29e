"""Rewrites FILTER (WHERE …) and IGNORE NULLS into the arguments of the aggregate call.

Aggregates skip NULL, so ``sum(x) FILTER (WHERE p)`` is ``sum(CASE WHEN p THEN x END)``: one form for both, and queries
that mean the same share their partials.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.language.binding.canonical import copied
from penstock.language.binding.functions import AGGREGATES, SCALAR, signature_of
from penstock.language.grammar.cursor import place_of, placed


def filtered(call: exp.Expr, condition: exp.Expr) -> exp.Expr | None:
    """Put a condition into an aggregate's arguments; None if the call is certainly no aggregate."""
    name, arguments = call.name.lower(), list(call.expressions)
    if name in SCALAR or not arguments:
        return None
    if name not in AGGREGATES:  # a user's own, whose rows without any value are skipped
        return _called(call, [_when(condition, argument) for argument in arguments])
    signature = signature_of(name)
    if signature.form == "ordered":  # they tell NULL from no row
        return _called(call, [*arguments, *([exp.false()] if len(arguments) == 1 else []), condition])
    if isinstance(arguments[0], exp.Distinct):
        inner = list(arguments[0].expressions)
        inner[0] = _when(condition, inner[0])
        whole = placed(exp.Distinct(expressions=inner), place_of(arguments[0]) or (0, 1))
        return _called(call, [whole])
    at = min(signature.deciding, len(arguments) - 1)
    arguments[at] = _when(condition, arguments[at])
    return _called(call, arguments)


def ignoring_nulls(call: exp.Expr, ignored: bool) -> exp.Expr | None:
    """Write ``first(x) IGNORE NULLS`` as ``first(x, TRUE)``; None where it has no meaning."""
    name, arguments = call.name.lower(), list(call.expressions)
    if name not in AGGREGATES or signature_of(name).form != "ordered" or len(arguments) != 1:
        return None
    return _called(call, [*arguments, exp.true()]) if ignored else call


def _when(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    """Write a value only where a condition holds; a star counts as 1."""
    shown = exp.Literal.number(1) if isinstance(value, exp.Star) else copied(value)
    case = exp.Case(ifs=[exp.If(this=copied(condition), true=shown)])
    return placed(case, place_of(value) or (0, 1))


def _called(call: exp.Expr, arguments: list[exp.Expr]) -> exp.Expr:
    """Write the same call with other arguments."""
    return placed(exp.Anonymous(this=call.this, expressions=arguments), place_of(call) or (0, 1))
