"""The tokens after GROUP BY come in; its elements go out: grouping expressions, ROLLUP, CUBE and GROUPING SETS."""

from __future__ import annotations

from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.language.grammar import Grammar
from penstock.language.limits import MAX_KEYS

_ANALYTIC: Final = {
    TokenType.ROLLUP: exp.Rollup,
    TokenType.CUBE: exp.Cube,
    TokenType.GROUPING_SETS: exp.GroupingSets,
}


class GroupByGrammar(Grammar):
    """GROUP BY a, ROLLUP (b, c), GROUPING SETS ((d), ())"""

    def _keys(self) -> list[exp.Expr]:
        """Read the GROUP BY list."""
        if self._at(TokenType.ALL):
            self._refuse("GROUP BY ALL queries")
        first = self._curr
        keys = [self._key()]
        while self._take(TokenType.COMMA):
            self._at_most(MAX_KEYS, keys, "grouping expressions")
            keys.append(self._key())
        if self._at_word("WITH") and self._next.text.upper() in ("ROLLUP", "CUBE"):
            self._advance()
            node = _ANALYTIC[TokenType.ROLLUP if self._take_word("ROLLUP") else self._expect_cube()]
            return [self._placed(node(expressions=keys), first)]
        if self._at(TokenType.GROUPING_SETS):
            hint = "Write GROUP BY GROUPING SETS (…), without expressions before it."
            self._refuse("GROUPING SETS after a list of expressions", hint=hint)
        return keys

    def _expect_cube(self) -> TokenType:
        """Step over CUBE."""
        self._expect_word("CUBE")
        return TokenType.CUBE

    def _key(self) -> exp.Expr:
        """Read one element: a grouping expression, or one of the words that stand for several grouping sets."""
        first = self._curr
        word = self._take(*_ANALYTIC)
        if word is None:
            return self._expression()
        self._deeper()
        node = _ANALYTIC[word.token_type](expressions=self._members(sets=word.token_type == TokenType.GROUPING_SETS))
        self._deeper(-1)
        return self._placed(node, first)

    def _members(self, *, sets: bool) -> list[exp.Expr]:
        """Read what stands in parentheses; ``sets``: other such words may stand there, and nothing at all."""
        self._expect(TokenType.L_PAREN, "(")
        members = [self._member(sets=sets)]
        while self._take(TokenType.COMMA):
            self._at_most(MAX_KEYS, members, "grouping expressions")
            members.append(self._member(sets=sets))
        self._expect(TokenType.R_PAREN, ")")
        return members

    def _member(self, *, sets: bool) -> exp.Expr:
        """Read one member: several expressions in parentheses count as one."""
        if sets and self._at(*_ANALYTIC):
            return self._key()
        if not self._at(TokenType.L_PAREN) or not self._ends_with_parenthesis():
            return self._expression()
        first = self._curr
        self._advance()
        inside: list[exp.Expr] = []
        while not self._at(TokenType.R_PAREN) or (not inside and not sets):
            self._at_most(MAX_KEYS, inside, "grouping expressions")
            inside.append(self._expression())
            if not self._take(TokenType.COMMA):
                break
        self._expect(TokenType.R_PAREN, ")")
        return self._placed(exp.Tuple(expressions=inside), first)

    def _ends_with_parenthesis(self) -> bool:
        """Tell whether a member ends where the parenthesis does that it begins with."""
        depth = 0
        for place in range(self._index, len(self._tokens)):
            kind = self._tokens[place].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if depth == 0:
                after = self._tokens[place + 1].token_type if place + 1 < len(self._tokens) else None
                return after in (TokenType.COMMA, TokenType.R_PAREN)
        return False
