"""Steps through a statement's tokens and raises errors that carry their place in the text."""

from __future__ import annotations

import re
from collections.abc import Sized
from typing import Final, NoReturn, TypeVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import MalformedSQL, Unsupported
from penstock.language.grammar.limits import MAX_NAME, MAX_NESTING, MAX_NODES, MAX_PREDICATES
from penstock.language.grammar.literals import quote, word_set, write_string
from penstock.language.grammar.readings import AFTER_NAMES, RESERVED, SIGNS, Readings

E = TypeVar("E", bound=exp.Expr)

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_QUOTED: Final = (TokenType.IDENTIFIER, TokenType.STRING)
# Words that something follows: whoever meant a name by them is told what to do where that does not follow.
_OPENING: Final = word_set(
    "all and as between case distinct div having ilike in inner is join left like not or regexp rlike where with"
)


class Cursor(SparkParser):
    """Sqlglot's token cursor with strict steps and errors that carry their place."""

    _nesting = 0
    _nodes = 0
    _predicates = 0
    _listing = False  # in the SELECT list, where an alias may follow an expression
    _readings: Readings | None = None  # None: reserved words are names only where nothing else can be meant

    def start(self, text: str, tokens: list[Token], readings: Readings | None = None) -> None:
        """Stand on the first token of a text; ``readings`` tell which of its reserved words are names."""
        self.reset()
        self._readings, self._listing = readings, False
        self.sql = text
        self._nesting = self._nodes = self._predicates = 0
        self._chunks = [tokens]
        self._advance_chunk()

    @property
    def _here(self) -> tuple[int, int]:
        """Return the place of the current token, or the end of the text."""
        if self._curr:
            return (self._curr.start, self._curr.end + 1)
        return (self._prev.end, self._prev.end + 1) if self._prev else (0, 1)

    def _fail(self, what: str, place: tuple[int, int] | None = None, hint: str | None = None) -> NoReturn:
        """Raise a MalformedSQL at a place, by default the current token."""
        hint = self._quoting() if hint is None and place is None else hint
        raise MalformedSQL(what, text=self.sql, place=place or self._here, hint=hint)

    def _quoting(self) -> str | None:
        """Advise on quotes: of a name in double quotes, of a string in doubled ones, of a word that may be a name."""
        if self._curr and self._curr.token_type == TokenType.STRING and self.sql[self._curr.start] == '"':
            return in_backquotes(self._curr.text)
        if self._curr and self._after_two_quotes():
            return f"A string stands between single quotes, which are not doubled: {write_string(self._curr.text)}."
        for token, words in ((self._prev, _OPENING), (self._curr, RESERVED)):
            if token and self._bare(token) and token.text.lower() in words:
                return advice(token.text)
        return None

    def _after_two_quotes(self) -> bool:
        """Say whether the current word follows an empty string at once, as in ''word''."""
        before = self._prev
        empty = bool(before) and before.token_type == TokenType.STRING and not before.text
        return empty and before.end + 1 == self._curr.start and self._is_word()

    def _refuse(
        self, what: str, place: tuple[int, int] | None = None, hint: str | None = None, detail: str | None = None
    ) -> NoReturn:
        """Raise an Unsupported that names things which exist elsewhere, by default the current token."""
        raise Unsupported(
            f"{what} are not available", text=self.sql, place=place or self._here, detail=detail, hint=hint
        )

    def _shown(self) -> str:
        """Name the current token for a message."""
        if not self._curr:
            return "the end"
        source = " ".join(self.sql[self._curr.start : self._curr.end + 1].split())
        shown = source if len(source) <= 40 else source[:37] + "..."
        return shown if source.startswith('"') else f'"{shown}"'

    def _at(self, *types: TokenType) -> bool:
        """Say whether the current token has one of these types."""
        return self._curr.token_type in types

    def _at_word(self, *words: str) -> bool:
        """Say whether the next tokens are these words, unquoted; asked some fifty times a query."""
        if self._curr.text.upper() != words[0] or len(self._tokens) - self._index < len(words):
            return False
        for place, word in enumerate(words, self._index):
            token = self._tokens[place]
            if token.text.upper() != word or token.token_type in _QUOTED:
                return False
        return True

    def _place_of_words(self, number: int) -> tuple[int, int]:
        """Return the place of the next words, which are so many."""
        return (self._curr.start, self._tokens[self._index + number - 1].end + 1)

    def _take_word(self, *words: str) -> bool:
        """Step over these words if they are next."""
        if not self._at_word(*words):
            return False
        self._advance(len(words))
        return True

    def _take(self, *types: TokenType) -> Token | None:
        """Step over a token of one of these types and return it."""
        if not self._at(*types):
            return None
        token = self._curr
        self._advance()
        return token

    def _expect(self, kind: TokenType, shown: str) -> Token:
        """Step over a token that must be here."""
        token = self._take(kind)
        if token is None:
            self._fail(f'expected "{shown}", found {self._shown()}')
        return token

    def _expect_word(self, *words: str) -> None:
        """Step over words that must be here."""
        if not self._take_word(*words):
            self._fail(f'expected "{" ".join(words)}", found {self._shown()}')

    def _at_name(self) -> bool:
        """Say whether the current token can be a name."""
        if not self._curr:
            return False
        if self._curr.token_type == TokenType.IDENTIFIER:
            return True
        return self._is_word() and (
            self._readings is not None
            or self._curr.text.lower() not in RESERVED
            or self._name_ends(*SIGNS, TokenType.STAR)
        )

    def _name_ends(self, *besides: TokenType) -> bool:
        """Say whether what comes after the current word is no value, so that the word can only be a name."""
        follows = self._next.token_type
        if follows == TokenType.DOT:
            after = self._tokens[self._index + 2 : self._index + 3]
            return bool(after) and after[0].token_type != TokenType.NUMBER
        return bool(self._next) and (follows in AFTER_NAMES or follows in besides)

    def _as_keyword(self, *besides: TokenType) -> bool:
        """Decide whether a word that begins a value or continues one is read as SQL's own, and not as a name."""
        if self._name_ends(*besides):
            return False
        return self._readings is None or self._readings.first(self._index)

    def _is_word(self) -> bool:
        """Say whether the current token is a bare word, keywords included."""
        return bool(self._curr) and self._bare(self._curr)

    def _bare(self, token: Token) -> bool:
        """Say whether a token is a bare word, keywords included."""
        if token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER):
            return False
        return _WORD.match(self.sql[token.start : token.end + 1]) is not None

    def _name(self, what: str, any_word: bool = False) -> exp.Identifier:
        """Step over a name and return it with its place."""
        if not (self._at_name() or (any_word and self._is_word())):
            hint = in_backquotes(self._curr.text) if self._at(TokenType.STRING) else None
            self._fail(f"expected {what}, found {self._shown()}", hint=hint)
        token = self._curr
        name = token.text
        if not name or "${" in name:
            # Spark replaces ${…} anywhere in SQL text, also between backquotes.
            self._fail(f"{self._shown()} cannot be a name")
        if len(name) > MAX_NAME:
            self._fail(f"a name of more than {MAX_NAME} characters")
        if not name.isprintable():
            self._fail("a name holds a character that does not show", hint="Rename the column where it comes from.")
        self._advance()
        quoted = token.token_type == TokenType.IDENTIFIER
        return placed(exp.Identifier(this=name, quoted=quoted), (token.start, token.end + 1))

    def _placed(self, node: E, first: Token) -> E:
        """Give a node the place from its first token to the last one taken."""
        return placed(node, (first.start, self._prev.end + 1))

    def _deeper(self, levels: int = 1) -> None:
        """Enter nested syntax, up to a limit."""
        self._nesting += levels
        if self._nesting > MAX_NESTING:
            self._fail(f"nested more than {MAX_NESTING} levels deep")

    def _at_most(self, limit: int, found: Sized, what: str) -> None:
        """Refuse the next one of a list that holds as many as may be."""
        if len(found) >= limit:
            self._fail(f"more than {limit:,} {what}")

    def _count_predicate(self) -> None:
        """Count one more test of the statement, up to a limit."""
        self._predicates += 1
        if self._predicates > MAX_PREDICATES:
            self._fail(f"more than {MAX_PREDICATES:,} predicates in one statement")

    def _count_node(self, within: exp.Expr) -> None:
        """Count one more part of the statement's expressions, up to a limit."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._fail(f"expressions of more than {MAX_NODES:,} parts in one statement", place_of(within))


def advice(word: str) -> str:
    """Say what to do if a word was meant as a name."""
    return f'If "{word}" is a name here, write it in backquotes: {quote(word)}.'


def in_backquotes(name: str) -> str:
    """Say how a name is quoted that stands in the quotes of strings."""
    if not name:
        return "Quotes are for strings, and a name has at least one character."
    return f"Quotes are for strings; a name stands in backquotes: {quote(name)}."


def placed(node: E, place: tuple[int, int]) -> E:
    """Remember where in the user's text a node stands."""
    node.meta["place"] = place
    return node


def place_of(node: exp.Expr | None) -> tuple[int, int] | None:
    """Return where in the user's text a node stands, from its own place or its parts'."""
    if node is None:
        return None
    own = node.meta.get("place")
    if own is not None:
        return (int(own[0]), int(own[1]))
    places = [n.meta["place"] for n in node.walk() if "place" in n.meta]
    return (min(p[0] for p in places), max(p[1] for p in places)) if places else None
