"""Text of one statement or a script comes in; statements as frozen values go out, or a MalformedSQL with its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import LanguageError, MalformedSQL
from penstock.language.cursor import MAX_NESTING
from penstock.language.dialect import Penstock
from penstock.language.statements import (
    CreateQuery,
    CreateStream,
    CreateTable,
    Drop,
    Select,
    Statement,
    StatementGrammar,
)

__all__ = [
    "CreateQuery",
    "CreateStream",
    "CreateTable",
    "Drop",
    "Select",
    "Statement",
    "parse_expression",
    "parse_query",
    "parse_script",
    "parse_statement",
]

T = TypeVar("T")

MAX_STATEMENT: Final = 100_000
MAX_SCRIPT: Final = 5_000_000
_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
# Strings, names and comments, closed or not: an unclosed one matches only as ``open``.
_LEXICAL: Final = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?P<open>['"`]|/\*)""", re.DOTALL
)


def parse_script(text: str) -> list[Statement]:
    """Read statements separated by semicolons; places in errors refer to the whole text."""
    _check_characters(text, MAX_SCRIPT, "script")
    statements = []
    for start, end in _extents(text, _tokens(text)):
        try:
            statements.append(parse_statement(text[start:end]))
        except LanguageError as error:
            raise _moved(error, text, start) from None
    return statements


def parse_query(text: str) -> Select:
    """Read one SELECT, with or without a semicolon after it."""
    statement = parse_statement(text)
    if not isinstance(statement, Select):
        raise MalformedSQL("expected a SELECT", text=text, place=_first_place(text))
    return statement


def parse_statement(text: str) -> Statement:
    """Read exactly one statement."""
    tokens = _checked(text)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise MalformedSQL("expected a statement, found nothing", text=text, place=(0, max(1, len(text))))
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise MalformedSQL("expected one statement, found several", text=text, place=(token.start, token.end + 1))
    return _guarded(text, lambda: _grammar(text, tokens).read())


def parse_expression(text: str) -> exp.Expr:
    """Read one expression, for example canonical text of a bound query."""
    grammar = _grammar(text, _checked(text))
    return _guarded(text, grammar.read_expression)


def _grammar(text: str, tokens: list[Token]) -> StatementGrammar:
    """Set a grammar on the first token."""
    grammar = StatementGrammar(dialect=Penstock(), error_level=ErrorLevel.IMMEDIATE)
    grammar.start(text, tokens)
    return grammar


def _guarded(text: str, read: Callable[[], T]) -> T:
    """Read, and turn whatever sqlglot or Python may raise on hostile text into a MalformedSQL."""
    try:
        return read()
    except RecursionError:
        what = "nested too deeply"
    except (SqlglotError, ValueError, IndexError, AttributeError, TypeError):
        what = "this does not parse"
    raise MalformedSQL(what, text=text, place=_first_place(text))


def _checked(text: str) -> list[Token]:
    """Split one statement into tokens after checking its size, characters and nesting."""
    _check_characters(text, MAX_STATEMENT, "statement")
    tokens = _tokens(text)
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > MAX_NESTING:
            what = f"nested more than {MAX_NESTING} levels deep"
            raise MalformedSQL(what, text=text, place=(token.start, token.end + 1))
    return tokens


def _check_characters(text: str, longest: int, what: str) -> None:
    """Refuse text that is too long or holds characters no statement needs."""
    if len(text) > longest:
        raise MalformedSQL(f"the {what} is longer than {longest:,} characters", text=text, place=(0, 1))
    nul = text.find("\0")
    if nul >= 0:
        raise MalformedSQL("the text holds a NUL character", text=text, place=(nul, nul + 1))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        what = "the text holds half a character"
        raise MalformedSQL(what, text=text, place=(error.start, error.end)) from None


def _tokens(text: str) -> list[Token]:
    """Split text into tokens."""
    try:
        return Penstock().tokenize(text)
    except SqlglotError:
        place = _unclosed(text)
        raise MalformedSQL("a quote or comment is not closed", text=text, place=place) from None


def _unclosed(text: str) -> tuple[int, int]:
    """Find where the token that never ends begins."""
    for match in _LEXICAL.finditer(text):
        if match["open"]:
            return match.span("open")
    return (len(text) - 1, len(text))


def _extents(text: str, tokens: list[Token]) -> list[tuple[int, int]]:
    """Return where each statement of a script starts and ends."""
    extents, start = [], None
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            if start is not None:
                extents.append((start, token.start))
            start = None
        elif start is None:
            start = token.start
    if start is not None:
        extents.append((start, tokens[-1].end + 1))
    return extents


def _moved(error: LanguageError, text: str, by: int) -> LanguageError:
    """Let an error about one statement point into the whole script."""
    place = None if error.place is None else (error.place[0] + by, error.place[1] + by)
    return type(error)(error.what, text=text, place=place, detail=error.detail, hint=error.hint)


def _first_place(text: str) -> tuple[int, int]:
    """Return the place of the first word, for errors about the whole."""
    stripped = text.lstrip()
    start = len(text) - len(stripped)
    return (start, start + max(1, len(stripped.split(None, 1)[0]) if stripped else 1))
