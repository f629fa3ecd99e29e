"""Parses the list after GROUP BY: expressions, ROLLUP, CUBE and GROUPING SETS."""

from __future__ import annotations

from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.language.grammar.expressions import Grammar
from penstock.language.grammar.limits import MAX_KEYS

_ANALYTIC: Final[dict[tuple[str, ...], type[exp.Expr]]] = {
    ("ROLLUP",): exp.Rollup,
    ("CUBE",): exp.Cube,
    ("GROUPING", "SETS"): exp.GroupingSets,
}


class GroupByGrammar(Grammar):
    """GROUP BY a, ROLLUP (b, c), GROUPING SETS ((d), ())"""

    def _keys(self) -> list[exp.Expr]:
        """Read the GROUP BY list."""
        first = self._curr
        keys = [self._key()]
        while self._take(TokenType.COMMA):
            self._at_most(MAX_KEYS, keys, "grouping expressions")
            keys.append(self._key())
        if self._at_word("WITH") and self._next.text.upper() in ("ROLLUP", "CUBE"):
            self._advance()
            node = exp.Rollup if self._take_word("ROLLUP") else self._expect_cube()
            return [self._placed(node(expressions=keys), first)]
        if self._at_analytic() is exp.GroupingSets:
            hint = "Write GROUP BY GROUPING SETS (…), without expressions before it."
            self._refuse("GROUPING SETS after a list of expressions", self._place_of_words(2), hint=hint)
        return keys

    def _expect_cube(self) -> type[exp.Expr]:
        """Step over CUBE."""
        self._expect_word("CUBE")
        return exp.Cube

    def _at_analytic(self) -> type[exp.Expr] | None:
        """Say which word that stands for several grouping sets is here, if one is: a parenthesis follows it."""
        for words, node in _ANALYTIC.items():
            after = self._tokens[self._index + len(words) : self._index + len(words) + 1]
            if self._at_word(*words) and after and after[0].token_type == TokenType.L_PAREN:
                return node
        return None

    def _key(self) -> exp.Expr:
        """Read one element: a grouping expression, or one of the words that stand for several grouping sets."""
        first = self._curr
        kind = self._at_analytic()
        if kind is None:
            return self._expression()
        self._advance(2 if kind is exp.GroupingSets else 1)
        self._deeper()
        node = kind(expressions=self._members(sets=kind is exp.GroupingSets))
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
        if sets and self._at_analytic():
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
