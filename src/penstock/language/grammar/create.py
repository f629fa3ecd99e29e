"""Parses CREATE STREAM, TABLE, QUERY and FUNCTION."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.language.grammar.clauses import ClauseDefinition, ClauseGrammar
from penstock.language.grammar.cursor import place_of, placed
from penstock.language.grammar.dialect import window_of
from penstock.language.grammar.limits import MAX_KEYS, MAX_OPTIONS
from penstock.language.options import OptionClause
from penstock.language.statements import (
    CreateFunction,
    CreateQuery,
    CreateStreamAs,
    Creation,
    Expression,
    Kind,
    Select,
)
from penstock.model.function import Parameter

_KINDS: Final[tuple[Kind, ...]] = ("query", "stream", "table", "function")


class CreateGrammar(ClauseGrammar):
    """CREATE and what belongs to it, by recursive descent."""

    def _kind(self) -> Kind:
        """Read QUERY, STREAM, TABLE or FUNCTION."""
        for kind in _KINDS:
            if self._take_word(kind.upper()):
                return kind
        self._fail(f"expected QUERY, STREAM, TABLE or FUNCTION, found {self._shown()}")

    def _create(self) -> Creation:
        """Read what follows CREATE."""
        for word in ("TEMPORARY", "TEMP"):
            if self._at_word(word):
                self._refuse("TEMPORARY names", hint="An engine without a state folder forgets everything.")
        place = self._here
        or_replace = self._take_word("OR", "REPLACE")
        kind = self._kind()
        missing = self._take_word("IF", "NOT", "EXISTS")
        if missing and or_replace:
            self._fail("OR REPLACE and IF NOT EXISTS exclude each other", place)
        name = self._name(f"the name of a {kind}")
        if kind == "function":
            return self._function(name, missing, or_replace)
        if kind == "query":
            self._expect(TokenType.ALIAS, "AS")
            return CreateQuery(name.name, self._inner_select(), missing, or_replace)
        return self._source_definition(kind, name, missing, (place, or_replace))

    def _source_definition(
        self, kind: Kind, name: exp.Identifier, missing: bool, replacing: tuple[tuple[int, int], bool]
    ) -> Creation:
        """Read the clauses of a stream or table."""
        if self._at(TokenType.ALIAS):
            if kind == "table":
                self._refuse("CREATE TABLE … AS SELECT statements")
            if replacing[1]:
                hint = "Queries read what it answers: drop it, then create it anew."
                self._refuse("OR REPLACE clauses for a stream that a query makes", replacing[0], hint=hint)
            self._advance()
            return CreateStreamAs(name.name, self._inner_select(), missing)
        made = ClauseDefinition(name, missing, self._columns(kind, name))
        while self._clause(kind, made):
            pass
        return replace(self._stream(made) if kind == "stream" else self._table(made), or_replace=replacing[1])

    # Queries.

    def _whole_select(self) -> Select:
        """Read a SELECT with its options up to the end of the text."""
        tree = self._select()
        options = self._with_options()
        if self._curr:
            self._no_more()
        return Select(tree, self.sql, options)

    def _inner_select(self) -> Select:
        """Read a SELECT as if it stood alone, so that its text can be read again."""
        start = self._here[0]
        select = self._whole_select()
        for node in select.expression.walk():
            if own := node.meta.get("place"):
                placed(node, (own[0] - start, own[1] - start))
            if window := window_of(node):
                node.meta["window"] = replace(window, place=(window.place[0] - start, window.place[1] - start))
        options = tuple(replace(o, place=(o.place[0] - start, o.place[1] - start)) for o in select.options)
        return Select(select.expression, self.sql[start : self._prev.end + 1], options)

    def _with_options(self) -> tuple[OptionClause, ...]:
        """Read WITH (option = value, …), if it is there."""
        if not self._at_word("WITH"):
            return ()
        self._advance()
        return self._query_options()

    def _query_options(self) -> tuple[OptionClause, ...]:
        """Read (option = value, …)."""
        self._expect(TokenType.L_PAREN, "(")
        options = [self._query_option()]
        while self._take(TokenType.COMMA):
            self._at_most(MAX_OPTIONS, options, "options")
            options.append(self._query_option())
        self._expect(TokenType.R_PAREN, ")")
        return tuple(options)

    def _query_option(self) -> OptionClause:
        """Read one option of a query; a value in several words is kept as they stand."""
        first = self._curr
        name = self._option_name().lower()
        self._expect(TokenType.EQ, "=")
        start = self._curr
        while self._curr and not self._at(TokenType.COMMA, TokenType.R_PAREN):
            self._advance()
        if self._curr is start:
            self._fail(f"expected a value, found {self._shown()}")
        last = self._prev
        place = (first.start, last.end + 1)
        if start is last and start.token_type == TokenType.STRING:
            return OptionClause(name, self._string_value(start), place)
        words = " ".join(self.sql[start.start : last.end + 1].split())
        whole = words.isdecimal() and words.isascii() and len(words) < 19
        return OptionClause(name, int(words) if whole else words, place)

    # Functions.

    def _function(self, name: exp.Identifier, missing: bool, or_replace: bool) -> CreateFunction:
        """Read parameters, type and body of a function."""
        self._expect(TokenType.L_PAREN, "(")
        parameters: list[Parameter] = []
        while not self._at(TokenType.R_PAREN):
            self._at_most(MAX_KEYS, parameters, "parameters")
            parameter = self._name("a parameter")
            if parameter.name.lower() in (other.name.lower() for other in parameters):
                self._fail(f'parameter "{parameter.name}" is declared twice', place_of(parameter))
            parameters.append(Parameter(parameter.name, self._type()))
            if not self._take(TokenType.COMMA):
                break
        self._expect(TokenType.R_PAREN, ")")
        returns = self._type() if self._take_word("RETURNS") else None
        self._expect_word("RETURN")
        body = Expression(self._expression(), self.sql)
        return CreateFunction(name.name, tuple(parameters), returns, body, missing, or_replace)
