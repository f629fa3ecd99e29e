"""Tries the readings of words that may be keywords or names, one after the other, until the text parses.

Spark reserves no word: ``SELECT end FROM t`` reads a column. A word that may be both is read as SQL's own first; if
the text does not parse so, the reading that decided last is taken back, as Spark's parser would.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sqlglot.tokenizer_core import TokenType

from penstock.language.grammar.literals import word_set

# Words that begin or continue a clause or an operator: names only where nothing else can be meant.
RESERVED: Final = word_set(
    """all and anti as between case cast create cross distinct div drop else end escape except exists false from full
    group having ilike in inner intersect is join lateral left like limit minus natural not null offset on or order
    qualify regexp right rlike select semi sort then true try_cast union using watermark when where with"""
)
# Words that Spark takes as no alias of a table: a join or another query may follow instead.
NO_TABLE_ALIAS: Final = word_set(
    "anti cross except full inner intersect join lateral left minus natural on right semi union using"
)
# Our own: a clause that lacks its second half should be an error, not an alias.
CLAUSES: Final = word_set("where group having with")
# After a word, these can only be the sequel of a name.
AFTER_NAMES: Final = frozenset(
    {
        TokenType.COMMA, TokenType.R_PAREN, TokenType.L_BRACKET, TokenType.R_BRACKET, TokenType.DCOLON, TokenType.EQ,
        TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE, TokenType.NULLSAFE_EQ,
        TokenType.SLASH, TokenType.MOD, TokenType.AMP, TokenType.PIPE, TokenType.CARET, TokenType.DPIPE,
    }
)  # fmt: skip
SIGNS: Final = frozenset({TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
MAX_READINGS: Final = 200
MAX_WORK: Final = 30_000  # tokens looked at in all readings of a text


@dataclass(slots=True)
class Readings:
    """What was decided about words that may be SQL's own or names, in the order in which it was asked."""

    chosen: dict[int, bool] = field(default_factory=dict)  # by token: read as the first choice says
    last: set[int] = field(default_factory=set)  # tokens of which both readings were tried

    def first(self, token: int) -> bool:
        """Say whether the first choice is taken for a token; at first it is."""
        return self.chosen.setdefault(token, True)

    def another(self) -> bool:
        """Turn to the next reading; say whether there is one."""
        while self.chosen:
            token, _ = self.chosen.popitem()
            if token not in self.last:
                self.chosen[token] = False
                self.last.add(token)
                return True
            self.last.discard(token)
        return False
