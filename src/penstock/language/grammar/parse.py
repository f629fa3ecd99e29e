"""Parses a statement or a script into frozen values, or raises a MalformedSQL with its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeVar

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import LanguageError, MalformedSQL
from penstock.language.grammar.dialect import Penstock
from penstock.language.grammar.lexical import readable, statements_in, tokens_of
from penstock.language.grammar.limits import MAX_SCRIPT, MAX_STATEMENT
from penstock.language.grammar.readings import MAX_READINGS, MAX_WORK, RESERVED, Readings
from penstock.language.grammar.statement_heads import StatementGrammar
from penstock.language.statements import (
    AlterQuery,
    CreateFunction,
    CreateQuery,
    CreateStream,
    CreateStreamAs,
    CreateTable,
    Describe,
    Drop,
    Explain,
    Select,
    Show,
    ShowCreate,
    Statement,
)
from penstock.model.garbage_collection import GARBAGE

__all__ = [
    "AlterQuery",
    "CreateFunction",
    "CreateQuery",
    "CreateStream",
    "CreateStreamAs",
    "CreateTable",
    "Describe",
    "Drop",
    "Explain",
    "Select",
    "Show",
    "ShowCreate",
    "Statement",
    "check_text",
    "parse_expression",
    "parse_query",
    "parse_script",
    "parse_statement",
    "read_canonical",
]

T = TypeVar("T")

MANY: Final = 500  # statements of a script, after which those that are read are let alone by the garbage collector
SURELY_READABLE: Final = 60  # tokens in which no limit can be reached: each of 40 levels opens and closes
_PIECES: Final = re.compile(r"\w+|[^\w\s]")  # a nesting token is one of these, and they are found faster


def parse_script(text: str) -> list[Statement]:
    """Read statements separated by semicolons; places in errors refer to the whole text."""
    text = readable(text, MAX_SCRIPT, "script")
    statements = []
    for start, end in statements_in(text):
        try:
            statements.append(parse_statement(text[start:end]))
        except LanguageError as error:
            raise _moved(error, text, start) from None
        if len(statements) % MANY == 0:
            GARBAGE.renew()
    return statements


def parse_query(text: str) -> Select:
    """Read one SELECT, with or without a semicolon after it."""
    statement = parse_statement(text)
    if not isinstance(statement, Select):
        raise MalformedSQL("expected a SELECT", text=text, place=_first_place(text))
    return statement


def parse_statement(text: str) -> Statement:
    """Read exactly one statement."""
    text = readable(text, MAX_STATEMENT, "statement")
    tokens = tokens_of(text)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise MalformedSQL("expected a statement, found nothing", text=text, place=(0, max(1, len(text))))
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise MalformedSQL("expected one statement, found several", text=text, place=(token.start, token.end + 1))
    return _guarded(text, tokens, StatementGrammar.read)


def check_text(text: str) -> None:
    """Refuse text that could not be read again: too long, or nested too deeply."""
    text = readable(text, MAX_STATEMENT, "statement")
    if len(_PIECES.findall(text)) > SURELY_READABLE and len(tokens_of(text)) > SURELY_READABLE:
        parse_statement(text)


def parse_expression(text: str) -> exp.Expr:
    """Read one expression, for example canonical text of a bound query."""
    text = readable(text, MAX_STATEMENT, "statement")
    return _guarded(text, tokens_of(text), StatementGrammar.read_expression)


@lru_cache(maxsize=1_024)
def read_canonical(text: str) -> exp.Expr:
    """Read canonical text that several look into, one after the other; none of them may change what it says."""
    return parse_expression(text)


def _read(text: str, tokens: list[Token], read: Callable[[StatementGrammar], T]) -> T:
    """Read a text with SQL's words as such; where it does not parse so, with some of them as names."""
    grammar = StatementGrammar(dialect=Penstock(), error_level=ErrorLevel.IMMEDIATE)
    grammar.start(text, tokens)
    try:
        return read(grammar)
    except LanguageError as error:
        plain = error
    readings, later = Readings(), None
    for _ in range(max(1, min(MAX_READINGS, MAX_WORK // max(1, len(tokens))))):
        grammar.start(text, tokens, readings)
        try:
            return read(grammar)
        except LanguageError as error:
            later = later or error
        if not readings.another():
            break
    raise later if later and _is_name(plain, tokens) else plain


def _is_name(error: LanguageError, tokens: list[Token]) -> bool:
    """Say whether an error is about a word of SQL before another one: it was meant as a name, and the error is not."""
    start = error.place[0] if error.place else -1
    for token, after in pairwise(tokens):
        if token.start == start:
            return token.text.lower() in RESERVED and after.text.lower() in RESERVED - {"select"}
    return False


def _guarded(text: str, tokens: list[Token], read: Callable[[StatementGrammar], T]) -> T:
    """Read, and turn whatever sqlglot or Python may raise on hostile text into a MalformedSQL."""
    try:
        return _read(text, tokens, read)
    except RecursionError:
        what = "nested too deeply"
    except (SqlglotError, ValueError, IndexError, AttributeError, TypeError):
        what = "this does not parse"
    raise MalformedSQL(what, text=text, place=_first_place(text))


def _moved(error: LanguageError, text: str, by: int) -> LanguageError:
    """Let an error about one statement point into the whole script."""
    place = None if error.place is None else (error.place[0] + by, error.place[1] + by)
    return type(error)(error.what, text=text, place=place, detail=error.detail, hint=error.hint)


def _first_place(text: str) -> tuple[int, int]:
    """Return the place of the first word, for errors about the whole."""
    stripped = text.lstrip()
    start = len(text) - len(stripped)
    return (start, start + max(1, len(stripped.split(None, 1)[0]) if stripped else 1))
