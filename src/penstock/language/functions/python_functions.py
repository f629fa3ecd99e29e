"""Checks a user's Python function (UDF) and its types, and makes a Function of it."""

from __future__ import annotations

import datetime
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sqlglot import exp

from penstock.errors import LanguageError, MalformedSQL, Unsupported
from penstock.language.binding.query_text import write_name
from penstock.language.functions.fingerprint import digest_of
from penstock.language.functions.sql_functions import check_function_name
from penstock.language.grammar.parse import parse_statement
from penstock.language.own_names import check_own_name
from penstock.language.statements import CreateFunction
from penstock.model.function import ID_DIGITS, Function, Parameter, PythonCode

Types = str | Mapping[str, str]  # "price double, symbol string", or the same by name
F = TypeVar("F", bound=Callable[..., Any])
VERSION: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
_MARK: Final = "__penstock_function__"
_HINTS: Final[Mapping[Any, str]] = {
    bool: "boolean",
    int: "bigint",
    float: "double",
    str: "string",
    bytes: "binary",
    datetime.date: "date",
    datetime.datetime: "timestamp",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What is said about a function besides its code; what is not said, its type hints tell."""

    parameters: Types | None = None
    returns: str | None = None
    vectorised: bool = False
    expensive: bool | None = None


def function(
    *,
    parameters: Types | None = None,
    returns: str | None = None,
    vectorised: bool = False,
    expensive: bool | None = None,
) -> Callable[[F], F]:
    """Mark a function of a project's ``functions.py`` as one that queries may call by its name."""

    def mark(marked: F) -> F:
        """Leave the function as it is, with a note on it."""
        setattr(marked, _MARK, Wish(parameters, returns, vectorised, expensive))
        return marked

    return mark


def wish_of(value: Any) -> Wish | None:
    """Return what a mark says about a function, if it has one."""
    found = getattr(value, _MARK, None)
    return found if isinstance(found, Wish) else None


def define_python(name: str, called: Callable[..., Any], wish: Wish) -> Function:
    """Check a callable and its types; the code itself is not pickled yet."""
    check_own_name(name, "function")
    check_function_name(name, name)
    check_callable(name, called)
    parameters, returns = types_of(name, called, called, wish)
    check_arity(name, called, parameters)
    digest = digest_of([(p.name, p.type) for p in parameters], returns, wish.vectorised, called)
    told = digest, wish.vectorised, VERSION, origin_of(called), digest[:ID_DIGITS]
    code = PythonCode(*told, expensive=wish.expensive)
    return Function(name, parameters, returns, "", code)


def check_callable(name: str, called: Any) -> None:
    """Refuse what does not give a value when it is called."""
    if not callable(called):
        what = f'function "{name}" is {_article(type(called).__name__)}, which cannot be called'
        raise LanguageError(what, hint="Give a Python function.")
    inner = called if inspect.isroutine(called) else _call_of(called)
    for kind, is_one in _NO_VALUES.items():
        if is_one(called) or is_one(inner):
            what = f'function "{name}" is {kind}, which gives no value when it is called'
            raise LanguageError(what, hint="Give a function that returns one value.")


_NO_VALUES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "a generator": inspect.isgeneratorfunction,
    "a coroutine": inspect.iscoroutinefunction,
    "an asynchronous generator": inspect.isasyncgenfunction,
}


def _call_of(called: Any) -> Any:
    """Return what is run when an object is called."""
    return type(called).__call__


def types_of(
    name: str, called: Callable[..., Any], answering: Callable[..., Any], wish: Wish
) -> tuple[tuple[Parameter, ...], str]:
    """Read the parameters of one callable, and the result of another or the same, as SQL types."""
    # That an argument is an array does not tell of what.
    taken = _hints(name, called) if wish.parameters is None and not wish.vectorised else {}
    given = _hints(name, answering) if wish.returns is None and not wish.vectorised else {}
    listed = _hinted(name, called, taken) if wish.parameters is None else _listed(wish.parameters)
    returns = _hint(name, "its result", given.get("return"), "returns") if wish.returns is None else wish.returns
    text = f"CREATE FUNCTION {write_name(name)}({listed}) RETURNS {returns} RETURN NULL"
    statement = parse_statement(text)
    if not isinstance(statement, CreateFunction) or not isinstance(statement.body.tree, exp.Null):
        raise MalformedSQL("these are not parameters and a type", text=text, place=(0, len(text)))
    if not statement.parameters:
        what, hint = f'function "{name}" has no parameters', "Give it one: a constant needs no function."
        raise Unsupported(what, hint=hint)
    assert statement.returns is not None
    return statement.parameters, statement.returns


def _listed(parameters: Types) -> str:
    """Write parameters as SQL."""
    if isinstance(parameters, str):
        return parameters
    return ", ".join(f"{write_name(name)} {type_}" for name, type_ in parameters.items())


def _hints(name: str, called: Callable[..., Any]) -> Mapping[str, Any]:
    """Read the type hints of a callable."""
    try:
        return typing.get_type_hints(called if inspect.isroutine(called) else _call_of(called))
    except Exception as error:  # hints are code, and may raise anything
        what = f'the type hints of function "{name}" cannot be read: {error}'
        raise LanguageError(what, hint='Write its types: parameters="x double", returns="boolean".') from None


def _hinted(name: str, called: Callable[..., Any], hints: Mapping[str, Any]) -> str:
    """Write the parameters that a signature and its hints tell."""
    try:
        known = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        known = types.MappingProxyType({}).values()
    usual = [p for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not usual:
        raise _untold(name, "its parameters", "parameters")
    told = {p.name: _hint(name, f'parameter "{p.name}"', hints.get(p.name), "parameters") for p in usual}
    return _listed(told)


def _hint(name: str, part: str, hint: Any, option: str) -> str:
    """Turn a type hint into a SQL type; None beside a type says nothing, since every value may be NULL."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [one for one in typing.get_args(hint) if one is not type(None)]
        hint = inner[0] if len(inner) == 1 else hint
    if hint not in _HINTS:
        raise _untold(name, part, option)
    return _HINTS[hint]


def _untold(name: str, part: str, option: str) -> LanguageError:
    """Word the error for a type that nobody told."""
    example = "x double, s string" if option == "parameters" else "boolean"
    detail = "type hints that are understood: " + ", ".join(hint.__name__ for hint in _HINTS)
    return LanguageError(
        f'the type of {part} of function "{name}" is not known', detail=detail, hint=f'Write it: {option}="{example}".'
    )


def check_arity(name: str, called: Callable[..., Any], parameters: tuple[Parameter, ...]) -> None:
    """Refuse parameters that the callable cannot take."""
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):  # some of those written in C do not tell
        return
    try:
        signature.bind(*parameters)
    except TypeError as error:
        count = len(parameters)
        what = f'function "{name}" cannot be called with {count} argument{"s" * (count != 1)}: {error}'
        declared = ", ".join(f"{p.name} {p.type}" for p in parameters)
        raise LanguageError(what, detail=f"parameters: {declared}", hint="Let the two agree.") from None


def origin_of(called: Any) -> str:
    """Name where a callable comes from."""
    named = called if hasattr(called, "__qualname__") else type(called)
    return f"{named.__module__}.{named.__qualname__}"


def _article(word: str) -> str:
    """Put "a" or "an" before a word."""
    return f"{'an' if word[0].lower() in 'aeiou' else 'a'} {word}"
