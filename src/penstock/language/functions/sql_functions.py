"""Defines users' SQL functions and expands calls of them in queries.

A call of a Python function stays a call, under a name that only this code has.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from sqlglot import exp

from penstock.errors import LanguageError, UnknownColumn, UnknownFunction, nearest
from penstock.language.binding.canonical import copied, render, strip
from penstock.language.binding.functions import NO_PARENTHESES, classify
from penstock.language.binding.scope import Scope, Source, allow, path_of, resolve
from penstock.language.grammar.cursor import place_of, placed
from penstock.language.grammar.limits import MAX_NODES
from penstock.language.grammar.literals import is_plain_word, shortened
from penstock.language.grammar.parse import parse_expression
from penstock.language.grammar.readings import RESERVED
from penstock.language.printing import write_expression
from penstock.language.statements import CreateFunction
from penstock.model.function import Function, Parameter

Functions = Mapping[str, Function]  # by name in lower case; Python's also under the names of their very code


def define(statement: CreateFunction, functions: Functions) -> Function:
    """Check a function, expand the functions that it calls, and bring its body into canonical form."""
    name, text = statement.name, statement.body.text
    check_function_name(name, text)
    for call in statement.body.tree.find_all(exp.Anonymous):
        if call.name.lower() == name.lower():
            raise LanguageError(f'function "{name}" calls itself', text=text, place=place_of(call))
    _check_parameters(statement)
    tree = expand(exp.Paren(this=copied(statement.body.tree)), functions, text)
    source = Source("stream", name, "", tuple(parameter.name for parameter in statement.parameters))
    body = render(resolve(tree, Scope(text, [source]), "a function"))
    return Function(name, statement.parameters, statement.returns, body)


def check_function_name(name: str, text: str) -> None:
    """Refuse a name that is none, or that means something already."""
    if not is_plain_word(name) or name.lower() in RESERVED | NO_PARENTHESES | {"extract", "interval", "case"}:
        hint = "Use letters, digits and underscores."
        raise LanguageError(
            f'"{name}" cannot be the name of a function', text=text, place=_whereabouts(name, text), hint=hint
        )
    try:
        classify(name)
    except UnknownFunction:
        return
    except LanguageError:
        pass
    what, hint = f'"{name}" is a built-in function', "Choose another name."
    raise LanguageError(what, text=text, place=_whereabouts(name, text), hint=hint)


def _whereabouts(name: str, text: str) -> tuple[int, int]:
    """Find where the function's name stands."""
    at = max(0, text.find(name))
    return (at, at + len(name))


def _check_parameters(statement: CreateFunction) -> None:
    """Refuse names in the body that are no parameters."""
    known = [parameter.name for parameter in statement.parameters]
    for node in statement.body.tree.find_all(exp.Column):
        path = path_of(node)
        if path is not None and path[0].name.lower() not in (*(name.lower() for name in known), *NO_PARENTHESES):
            what = f'function "{statement.name}" has no parameter "{path[0].name}"'
            detail = "parameters: " + (", ".join(known) or "none")
            hint = nearest(path[0].name, known)
            raise UnknownColumn(what, text=statement.body.text, place=place_of(path[0]), detail=detail, hint=hint)


# Calls.


def expand_select(tree: exp.Select, functions: Functions, text: str) -> exp.Select:
    """Return a SELECT with every call expanded; an output without an alias keeps the name it is written with."""
    if not functions or not any(call.name.lower() in functions for call in tree.find_all(exp.Anonymous)):
        return tree
    copy = copied(tree)
    for item in list(copy.expressions):
        called = any(call.name.lower() in functions for call in item.find_all(exp.Anonymous))
        if called and not isinstance(item, exp.Alias):
            named = exp.Alias(this=copied(item), alias=exp.Identifier(this=_plain_name(item), quoted=True))
            item.replace(placed(named, place_of(item) or (0, 1)))
    return expand(copy, functions, text)  # type: ignore[return-value]


def expand(tree: exp.Expr, functions: Functions, text: str) -> exp.Expr:
    """Expand every call in a tree, in place, arguments first; the root itself is no call."""
    size = sum(1 for _ in tree.walk())
    for call in reversed(list(tree.find_all(exp.Anonymous))):
        function = functions.get(call.name.lower())
        if function is None:
            continue
        _check_call(call, function, text)
        if function.python is not None:
            call.replace(_pinned(call, function))
            continue
        size += _growth(call, function)
        if size > MAX_NODES:
            what = f"more than {MAX_NODES:,} names, constants and operators once functions are expanded"
            raise LanguageError(what, text=text, place=place_of(call))
        call.replace(_expanded(call, function, functions))
    return tree


def _pinned(call: exp.Anonymous, function: Function) -> exp.Expr:
    """Write a call of a Python function under the name of its very code, arguments cast to their types."""
    values = [_cast(a, p.type) for p, a in zip(function.parameters, call.expressions, strict=True)]
    node = exp.Anonymous(this=function.pinned, expressions=values)
    aggregates = function.python is not None and function.python.aggregates
    return placed(allow(node, aggregates=aggregates), place_of(call) or (0, 1))


def _plain_name(item: exp.Expr) -> str:
    """Name an output by its text, columns without their stream."""

    def bare(node: exp.Expr) -> exp.Expr:
        """Keep the last name of a path."""
        path = path_of(node)
        return exp.Column(this=exp.Identifier(this=path[-1].name)) if path is not None and len(path) > 1 else node

    return shortened(write_expression(exp.Paren(this=copied(item)).transform(bare, copy=False)))


def _check_call(call: exp.Anonymous, function: Function, text: str) -> None:
    """Refuse a call with too few or too many arguments, or with something that is no value."""
    wanted, found = len(function.parameters), len(call.expressions)
    if wanted != found:
        listed = ", ".join(f"{p.name} {p.type}" for p in function.parameters)
        what = f"{function.name}() takes {wanted} argument{'s' * (wanted != 1)}, found {found}"
        raise LanguageError(what, text=text, place=place_of(call), detail=f"{function.name}({listed})")
    for argument in call.expressions:
        if isinstance(argument, exp.Distinct | exp.Star):
            what = f"{function.name}() takes values, not {'DISTINCT' if isinstance(argument, exp.Distinct) else '*'}"
            raise LanguageError(what, text=text, place=place_of(argument))


@lru_cache(maxsize=256)
def _body(text: str) -> exp.Expr:
    """Read a function's body; it is copied wherever it goes."""
    return parse_expression(text)


def _growth(call: exp.Anonymous, function: Function) -> int:
    """Return how many nodes an expanded call adds, before it is built: doubling chains must not be."""
    body = _body(function.body)
    sizes = {p.name: sum(1 for _ in a.walk()) + 2 for p, a in zip(function.parameters, call.expressions, strict=True)}
    return sum(1 for _ in body.walk()) + sum(sizes.get(column.name, 0) for column in body.find_all(exp.Column))


def _expanded(call: exp.Anonymous, function: Function, functions: Functions) -> exp.Expr:
    """Build the body with its arguments cast to their types, all standing where the call stands."""
    values = {p.name: _cast(a, p.type) for p, a in zip(function.parameters, call.expressions, strict=True)}
    body = exp.Paren(this=copied(_body(function.body)))
    place = place_of(call) or (0, 1)
    for node in body.walk():
        placed(node, place)
        if isinstance(node, exp.Anonymous) and node.name in functions:
            allow(node)
    for column in list(body.find_all(exp.Column)):
        column.replace(copied(values[column.name]))
    return placed(_cast(body, function.returns) if function.returns else body, place)


def _cast(value: exp.Expr, type_: str) -> exp.Expr:
    """Cast a value, unless it is one of that cast already."""
    bare = strip(value)
    if type(bare) is exp.Cast and bare.args["to"].name == type_:
        return copied(bare)
    return exp.Cast(this=copied(value), to=exp.Var(this=type_))


def parameters_of(function: Function) -> str:
    """List a function's parameters as SQL writes them."""
    return ", ".join(_written(parameter) for parameter in function.parameters)


def _written(parameter: Parameter) -> str:
    """Write one parameter."""
    return f"{parameter.name} {parameter.type}"
