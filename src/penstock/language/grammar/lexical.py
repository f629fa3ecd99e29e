"""Splits text into statements and tokens, after it has checked their size and characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import MalformedSQL
from penstock.language.grammar.dialect import Penstock
from penstock.language.grammar.limits import MAX_NESTING, MAX_STATEMENT, MAX_TOKENS

Place = tuple[int, int]

_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_QUOTED: Final = (TokenType.STRING, TokenType.RAW_STRING, TokenType.IDENTIFIER)
_MICROSECONDS: Final = re.compile(r"[0-9.]*[µμ][sS]\Z")  # the one unit that is not written in ASCII
# Strings, names and comments, closed or not: an unclosed one matches only as ``open``. Comments may nest.
_LEXICAL: Final = re.compile(
    r"""(?<!\w)[rR](?:'[^']*'|"[^"]*")|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|--[^\r\n]*|(?P<comment>/\*)"""
    r"""|(?P<open>['"`])|(?P<end>;)|(?P<template>\{\#)""",
    re.DOTALL,
)
_SPACE: Final = re.compile(r"[;\s]*")
_COMMENT_MARKS: Final = re.compile(r"/\*|\*/")
# Characters that do not show or that turn the line around: what is read would not be what runs.
_HIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_MARK: Final = "\ufeff"  # that some editors put before a file's first character


def readable(text: str, longest: int, what: str) -> str:
    """Return the text without a byte order mark, having refused what is too long or holds hidden characters."""
    if len(text) > longest:
        raise MalformedSQL(f"the {what} is longer than {longest:,} characters", text=text, place=(0, 1))
    text = " " + text[1:] if text.startswith(_MARK) else text
    hidden = _HIDDEN.search(text)
    if hidden:
        hint = f"In a string, write \\u{ord(hidden[0]):04x}."
        raise MalformedSQL(f"the text holds {character(hidden[0])}", text=text, place=hidden.span(), hint=hint)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        what = "the text holds half of a character (a lone surrogate)"
        raise MalformedSQL(what, text=text, place=(error.start, error.end)) from None
    return text


def character(sign: str) -> str:
    """Name a character that may not show itself."""
    return f"U+{ord(sign):04X} ({unicodedata.name(sign, 'a control character').lower()})"


def statements_in(text: str) -> Iterator[Place]:
    """Yield where each statement of a script starts and ends, one at a time."""
    _refuse_long(text)
    start, at = 0, 0
    while at <= len(text):
        match = _LEXICAL.search(text, at)
        end = match.start() if match and match["end"] else None
        if match is None or end is not None:
            yield from _extent(text, start, len(text) if end is None else end)
            if end is None:
                return
            start = at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
        else:
            at = _after(text, match)


def _refuse_long(text: str) -> None:
    """Refuse a statement that is too long, before anything is looked at sign by sign."""
    at = 0
    for piece in text.split(";") if len(text) > MAX_STATEMENT else ():
        if len(piece) > MAX_STATEMENT:
            at += len(piece) - len(piece.lstrip())
            what = f"the statement is longer than {MAX_STATEMENT:,} characters"
            raise MalformedSQL(what, text=text, place=(at, at + 1))
        at += len(piece) + 1


def _extent(text: str, start: int, end: int) -> Iterator[Place]:
    """Yield a piece between two semicolons unless it holds nothing but spaces and comments."""
    at = start
    while at < end:
        if text[at].isspace():
            at += 1
        elif text.startswith(("--", "/*"), at):
            match = _LEXICAL.match(text, at)
            assert match is not None
            at = _after(text, match)
        else:
            yield (at, end)
            return


def _after(text: str, match: re.Match[str]) -> int:
    """Return where a string, name or comment ends; refuse one that does not."""
    if match["template"]:
        what = "templates are not available"
        raise MalformedSQL(what, text=text, place=match.span(), hint="Write the statement as Spark reads it.")
    if match["open"]:
        raise _unclosed(text, match.span())
    if not match["comment"]:
        return match.end()
    depth = 0
    for mark in _COMMENT_MARKS.finditer(text, match.start()):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    raise _unclosed(text, match.span())


def _unclosed(text: str, place: Place) -> MalformedSQL:
    """Build the error for a string, name or comment that never ends."""
    return MalformedSQL("a quote or comment is not closed", text=text, place=place)


def tokens_of(text: str) -> list[Token]:
    """Split one statement into tokens, which are not too many, not nested too deeply, and plain outside of quotes."""
    for _ in statements_in(text):  # refuses what is not closed, at its place
        pass
    try:
        tokens = Penstock().tokenize(text)
    except SqlglotError:
        raise _unclosed(text, (len(text) - 1, len(text))) from None
    if len(tokens) > MAX_TOKENS:
        raise MalformedSQL(
            f"a statement of more than {MAX_TOKENS:,} words", text=text, place=_place(tokens[MAX_TOKENS])
        )
    _check_nesting(text, tokens)
    if not text.isascii():
        _check_words(text, tokens)
    return tokens


def _check_nesting(text: str, tokens: Sequence[Token]) -> None:
    """Refuse parentheses that nest too deeply before anything recurses on them."""
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > MAX_NESTING:
            raise MalformedSQL(f"nested more than {MAX_NESTING} levels deep", text=text, place=_place(token))


def _check_words(text: str, tokens: Sequence[Token]) -> None:
    """Refuse letters outside of ASCII where there are no quotes, as Spark does: some look like, or fold to, others."""
    for token in tokens:
        source = text[token.start : token.end + 1]
        if source.isascii() or token.token_type in _QUOTED or _MICROSECONDS.match(source):
            continue
        at = next(i for i, sign in enumerate(source, token.start) if not sign.isascii())
        what = f"{character(text[at])} stands outside of quotes"
        raise MalformedSQL(what, text=text, place=(at, at + 1), hint="Put a name that holds it in backquotes.")


def _place(token: Token) -> Place:
    """Return where a token stands."""
    return (token.start, token.end + 1)
