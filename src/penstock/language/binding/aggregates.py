"""Brings an aggregate call into canonical form: checks its arguments and reads its constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, NoReturn, assert_never

from sqlglot import exp

from penstock.errors import LanguageError, Unsupported
from penstock.language.binding.aggregate_signatures import Constant, Signature
from penstock.language.binding.canonical import strip
from penstock.language.binding.functions import AGGREGATES, signature_of
from penstock.language.binding.joins import From
from penstock.language.binding.scope import is_aggregate, is_grouping
from penstock.language.binding.spark_window import mentions_window
from penstock.language.grammar.cursor import place_of
from penstock.language.grammar.literals import quote
from penstock.language.predicates.constants import constant_of
from penstock.model.query import Aggregate, Parameter

MOST_ITEMS: Final = 10_000  # of a top list
MOST_TRACKED: Final = 1_000_000  # items that a sketch of frequent ones follows, as Spark bounds it
_NEEDED: Final = frozenset({"percentages"})  # of the constants; the others may be left out
_BOUNDS: Final[dict[Constant, tuple[int, int, str]]] = {
    "items": (1, MOST_ITEMS, "the number of items"),
    "tracked": (1, MOST_TRACKED, "the number of tracked items"),
    "accuracy": (1, 10_000, "the accuracy"),
    "lg_k": (4, 21, "the size of the sketch"),
    "lg_nominal": (4, 26, "the size of the sketch"),
    "k": (8, 65_535, "the size of the sketch"),
}


def bind_call(call: exp.Expr, read: From) -> Aggregate:
    """Bring an aggregate call into canonical form."""
    for argument in call.expressions:
        _check_argument(argument, read)
    if call.name.lower() not in AGGREGATES:  # a user's own: counted and cast when its call was expanded
        return Aggregate(call.name, tuple(read.canonical(argument) for argument in call.expressions))
    signature, arguments = signature_of(call.name), list(call.expressions)
    if arguments and isinstance(arguments[0], exp.Distinct):
        return _distinct(signature, call, arguments, read)
    match signature.form:
        case "count":
            return _count(call, arguments, read)
        case "top":
            return _top(call, arguments, read)
        case "ordered":
            return _ordered(signature.name, call, arguments, read)
        case "collected":
            return _collected(signature, call, arguments, read)
        case "usual" | "weighed":
            return _usual(signature, call, arguments, read)
        case never:
            assert_never(never)


def _usual(signature: Signature, call: exp.Expr, arguments: Sequence[exp.Expr], read: From) -> Aggregate:
    """Bind a call of values, then constants, then perhaps a weight."""
    values, constants = signature.values, signature.constants
    needed = values + sum(kind in _NEEDED for kind in constants)
    last = values + len(constants)
    weighed = signature.form == "weighed" and len(arguments) == last + 1
    if not needed <= len(arguments) <= last + weighed:
        _miscounted(signature, call, read)
    given = zip(constants, arguments[values:], strict=False)
    parameters = tuple(_constant(kind, argument, read) for kind, argument in given)
    taken = [*arguments[:values], *(arguments[last:] if weighed else [])]
    return Aggregate(signature.name, tuple(read.canonical(argument) for argument in taken), parameters)


def _check_argument(argument: exp.Expr, read: From) -> None:
    """Refuse aggregates of aggregates and of windows."""
    if any(is_aggregate(part) for part in argument.walk()):
        _complain("an aggregate inside an aggregate is not allowed", argument, read)
    if any(is_grouping(part) for part in argument.walk()):
        _complain("grouping() inside an aggregate is not available", argument, read, Unsupported)
    if mentions_window(argument):
        _complain("the window inside an aggregate is not available", argument, read, Unsupported)


def _miscounted(signature: Signature, call: exp.Expr, read: From) -> NoReturn:
    """Say how many arguments an aggregate takes."""
    certain = sum(kind in _NEEDED for kind in signature.constants)
    needed = signature.values + certain
    wanted = {1: "one argument", 2: "two arguments"}.get(needed, f"{needed} arguments")
    most = " or more" if len(signature.constants) > certain else ""
    _complain(f"{signature.name}() takes {wanted}{most}, found {len(call.expressions)}", call, read)


def _count(call: exp.Expr, arguments: Sequence[exp.Expr], read: From) -> Aggregate:
    """Bind a count; of a constant, which is never NULL, it counts rows."""
    if not arguments:
        _complain("count() takes one argument, found 0", call, read)
    if len(arguments) == 1 and isinstance(arguments[0], exp.Star | exp.Literal | exp.Boolean):
        return Aggregate("count", ())
    return Aggregate("count", tuple(read.canonical(argument) for argument in arguments))


def _distinct(signature: Signature, call: exp.Expr, arguments: Sequence[exp.Expr], read: From) -> Aggregate:
    """Bind an aggregate of distinct values; the least and greatest, for example, are the same with and without."""
    inner, function = arguments[0].expressions, signature.name
    if any(isinstance(value, exp.Star) for value in inner):
        _complain("DISTINCT needs an argument", arguments[0], read)
    if signature.form == "collected":
        return replace(_collected(signature, call, inner, read), distinct=True, row=())
    if len(inner) > 1 and function != "count":
        _complain(f"{function}() takes one argument, found {len(inner)}", call, read)
    texts = tuple(dict.fromkeys(read.canonical(value) for value in inner))
    return Aggregate(function, texts, distinct=not signature.same_distinct)


def _top(call: exp.Expr, arguments: Sequence[exp.Expr], read: From) -> Aggregate:
    """Bind top(k, x) and top(k, x, weight)."""
    if not 2 <= len(arguments) <= 3:
        what = f"top() takes two or three arguments, found {len(arguments)}"
        _complain(what, call, read, hint="Write top(10, symbol), or top(10, symbol, volume).")
    k = _constant("items", arguments[0], read)
    return Aggregate("top", tuple(read.canonical(argument) for argument in arguments[1:]), (k,))


def _ordered(function: str, call: exp.Expr, arguments: Sequence[exp.Expr], read: From) -> Aggregate:
    """Bind first and last, which need the whole row to put rows of one time in order."""
    if not 1 <= len(arguments) <= 3:
        _complain(f"{function}() takes one or two arguments, found {len(arguments)}", call, read)
    ignored = constant_of(arguments[1]) if len(arguments) > 1 else None
    if len(arguments) > 1 and (ignored is None or ignored.kind != "boolean"):
        _complain(f"the second argument of {function}() must be TRUE or FALSE", arguments[1], read)
    texts = [read.canonical(arguments[0]), *(read.canonical(argument) for argument in arguments[2:])]
    row = tuple(quote(column) for column in read.scope.sources[0].columns)
    return Aggregate(function, tuple(texts), (bool(ignored and ignored.value),), row=row)


def _collected(signature: Signature, call: exp.Expr, arguments: Sequence[exp.Expr], read: From) -> Aggregate:
    """Bind what lists values in the order of rows, perhaps with a text between them."""
    if not 1 <= len(arguments) <= 1 + len(signature.constants):
        _miscounted(signature, call, read)
    parameters = tuple(_text(node, read) for node in arguments[1:]) or ("",) * len(signature.constants)
    row = tuple(quote(column) for column in read.scope.sources[0].columns)
    return Aggregate(signature.name, (read.canonical(arguments[0]),), parameters, row=row)


def _text(node: exp.Expr, read: From) -> str:
    """Read a text that is written out; NULL is an empty one, as in Spark."""
    found = constant_of(node)
    if isinstance(strip(node), exp.Null):
        return ""
    if found is None or found.kind != "string" or not isinstance(found.value, str):
        _complain("this must be a text that is written out", node, read, Unsupported)
    return found.value


def _constant(kind: Constant, node: exp.Expr, read: From) -> Parameter:
    """Read a constant of an aggregate."""
    if kind == "percentages":
        return _percentages(node, read)
    value = _number(node, read)
    if kind == "deviation":
        if not 0.0008 <= value <= 0.39:
            _complain("the relative deviation must be from 0.0008 to 0.39", node, read)
        return float(value)
    least, most, what = _BOUNDS[kind]
    if value.denominator != 1 or not least <= value <= most:
        _complain(f"{what} must be a whole number from {least:,} to {most:,}", node, read)
    return int(value)


def _percentages(node: exp.Expr, read: From) -> Parameter:
    """Read a percentage, or an array of them."""
    bare = strip(node)
    if isinstance(bare, exp.Anonymous) and bare.name.lower() == "array":
        if not bare.expressions:
            _complain("an array of percentages must have at least one", node, read)
        return tuple(_percentage(value, read) for value in bare.expressions)
    return _percentage(bare, read)


def _percentage(node: exp.Expr, read: From) -> float:
    """Read one percentage."""
    value = _number(node, read)
    if not 0 <= value <= 1:
        _complain("a percentage must be from 0 to 1", node, read, hint="Write 0.95 for 95 %.")
    return float(value)


def _number(node: exp.Expr, read: From) -> Fraction:
    """Read a number that is written out."""
    found = constant_of(node)
    if found is None or found.kind not in ("integer", "decimal", "double") or isinstance(found.value, str | None):
        _complain("this must be a number that is written out", node, read, Unsupported)
    try:
        return Fraction(found.value)
    except (ValueError, OverflowError):
        _complain("this must be a number", node, read)


def _complain(
    what: str, node: exp.Expr, read: From, kind: type[LanguageError] = LanguageError, hint: str | None = None
) -> NoReturn:
    """Raise an error at a node."""
    raise kind(what, text=read.scope.text, place=place_of(node), hint=hint)
