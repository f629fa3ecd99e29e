"""Parses function calls with their arguments, DISTINCT, FILTER and IGNORE NULLS."""

from __future__ import annotations

from abc import abstractmethod

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.language.binding.filter_clause import filtered, ignoring_nulls
from penstock.language.grammar.cursor import advice, placed
from penstock.language.grammar.limits import MAX_LIST
from penstock.language.grammar.operators import OR
from penstock.language.grammar.readings import SIGNS
from penstock.language.grammar.terms import Terms
from penstock.language.grammar.words import IN_BRACKETS


class Calls(Terms):
    """Calls of functions, their arguments, and what SQL allows after them."""

    @abstractmethod
    def _climb(self, lowest: int) -> exp.Expr:
        """Read operators that bind at least as tightly as ``lowest``."""

    def _open(self) -> None:
        """Step into parentheses."""
        self._expect(TokenType.L_PAREN, "(")
        self._deeper()

    def _close(self) -> None:
        """Step out of parentheses."""
        self._expect(TokenType.R_PAREN, ")")
        self._nesting -= 1

    def _list(self) -> list[exp.Expr]:
        """Read expressions separated by commas."""
        values = [self._climb(OR)]
        while self._take(TokenType.COMMA):
            self._at_most(MAX_LIST, values, "values in a list")
            values.append(self._climb(OR))
        return values

    def _call(self) -> exp.Expr:
        """Read a function's name, its arguments and what follows them."""
        first = self._curr
        name = self._name("a function", any_word=True).name
        self._open()
        arguments = [] if self._at(TokenType.R_PAREN) else self._arguments()
        for token, what in (
            (TokenType.ALIAS, "names in arguments"),
            (TokenType.FARROW, "named arguments"),
            (TokenType.ARROW, "lambda functions"),
        ):
            if self._at(token):
                self._refuse(what)
        if self._at_word("ORDER", "BY"):
            self._refuse("ordered aggregates", self._place_of_words(2))
        self._close()
        call = exp.Anonymous(this=name, expressions=arguments)
        return self._filter(self._nulls(self._placed(call, first)))

    def _arguments(self) -> list[exp.Expr]:
        """Read arguments, with DISTINCT kept as a node of its own."""
        if self._at_subquery():
            self._refuse("subqueries")
        if self._at(TokenType.DISTINCT, TokenType.ALL) and (self._next.token_type in SIGNS or self._as_keyword()):
            word = self._curr
            self._advance()
            if word.token_type == TokenType.DISTINCT:
                return [placed(exp.Distinct(expressions=self._list()), (word.start, word.end + 1))]
        return self._list()

    def _nulls(self, call: exp.Expr) -> exp.Expr:
        """Read IGNORE NULLS or RESPECT NULLS, and refuse what SQL allows here and Penstock does not."""
        if self._at_word("WITHIN", "GROUP"):
            self._refuse("WITHIN clauses", hint="Write percentile(x, 0.9).")
        for word in ("IGNORE", "RESPECT"):
            if self._at_word(word, "NULLS"):
                place = (self._curr.start, self._curr.end + 1)
                found = ignoring_nulls(call, word == "IGNORE")
                if found is None:
                    self._refuse(f"{word} clauses of {call.name.lower()}()", place)
                self._advance(2)
                call = found
        return call

    def _filter(self, call: exp.Expr) -> exp.Expr:
        """Read FILTER (WHERE …) into the arguments, and refuse OVER."""
        if self._at_word("FILTER") and self._next.token_type == TokenType.L_PAREN:
            place = (self._curr.start, self._curr.end + 1)
            self._advance()
            self._open()
            self._expect(TokenType.WHERE, "WHERE")
            condition = self._climb(OR)
            self._close()
            found = filtered(call, condition)
            if found is None:
                self._fail(f"FILTER after {call.name.lower()}(), which is not an aggregate", place)
            call = found
        if self._at(TokenType.OVER):
            if self._next.token_type in (TokenType.L_PAREN, TokenType.IDENTIFIER):
                self._refuse("window functions (OVER)", hint=IN_BRACKETS)
            if self._next and self._bare(self._next):
                self._refuse("window functions (OVER)", hint=advice(self._curr.text))
        return call
