"""Parses what stands behind HAVING: ORDER BY, LIMIT and OFFSET."""

from __future__ import annotations

from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.language.grammar.group_by import GroupByGrammar
from penstock.language.grammar.limits import MAX_KEYS

_MOST_DIGITS: Final = 18  # of a number of rows


class OrderByGrammar(GroupByGrammar):
    """ORDER BY a DESC NULLS LAST, 2 LIMIT 10 OFFSET 5"""

    def _arranged(self, select: exp.Select) -> None:
        """Read the clauses into a SELECT, as far as they are there."""
        if self._take_word("ORDER", "BY"):
            select.set("order", exp.Order(expressions=self._sort_keys()))
        if self._at_word("LIMIT"):
            limit = self._row_count("LIMIT")
            if limit is not None:
                select.set("limit", exp.Limit(expression=limit))
        if self._at_word("OFFSET"):
            offset = self._row_count("OFFSET")
            select.set("offset", exp.Offset(expression=offset))

    def _sort_keys(self) -> list[exp.Expr]:
        """Read the ORDER BY list."""
        keys = [self._sort_key()]
        while self._take(TokenType.COMMA):
            self._at_most(MAX_KEYS, keys, "expressions in ORDER BY")
            keys.append(self._sort_key())
        return keys

    def _sort_key(self) -> exp.Expr:
        """Read one expression with its direction, and where its NULLs go: as in Spark, they count as least."""
        first = self._curr
        value = self._expression()
        descending = self._take_word("DESC")
        if not descending:
            self._take_word("ASC")
        nulls_first = not descending
        if self._take_word("NULLS"):
            nulls_first = self._take_word("FIRST")
            if not nulls_first:
                self._expect_word("LAST")
        return self._placed(exp.Ordered(this=value, desc=descending, nulls_first=nulls_first), first)

    def _row_count(self, clause: str) -> exp.Expr | None:
        """Read LIMIT or OFFSET and a number of rows; LIMIT ALL is no limit."""
        self._advance()
        if clause == "LIMIT" and self._take_word("ALL"):
            return None
        token = self._take(TokenType.NUMBER)
        if token is None or not token.text.isdecimal() or len(token.text) > _MOST_DIGITS:
            place = None if token is None else (token.start, token.end + 1)
            self._fail(f"{clause} takes a number of rows", place)
        return self._placed(exp.Literal.number(int(token.text)), token)
