"""Decides by what follows whether a word is a keyword of SQL or a name."""

from __future__ import annotations

from typing import Final

from sqlglot.tokenizer_core import TokenType

from penstock.language.grammar.cursor import Cursor
from penstock.language.grammar.readings import CLAUSES, NO_TABLE_ALIAS, RESERVED, SIGNS

STRINGS: Final = (TokenType.STRING, TokenType.RAW_STRING)
# What may follow or begin a SELECT elsewhere, and is named in the refusal here.
IN_BRACKETS: Final = "A window stands behind its stream, in brackets: trades [RANGE 1 DAY SLIDE 1 DAY]."
REFUSED_CLAUSES: Final = (
    ("SORT BY", "SORT BY clauses"),
    ("CLUSTER BY", "CLUSTER BY clauses"),
    ("DISTRIBUTE BY", "DISTRIBUTE BY clauses"),
    ("QUALIFY", "QUALIFY clauses"),
    ("WINDOW", "WINDOW clauses"),
    ("UNION", "UNION, EXCEPT and INTERSECT"),
    ("EXCEPT", "UNION, EXCEPT and INTERSECT"),
    ("MINUS", "UNION, EXCEPT and INTERSECT"),
    ("INTERSECT", "UNION, EXCEPT and INTERSECT"),
    ("LATERAL", "LATERAL VIEW and lateral joins"),
    ("TABLESAMPLE", "TABLESAMPLE clauses"),
    ("PIVOT", "PIVOT clauses"),
    ("UNPIVOT", "UNPIVOT clauses"),
)
_CLAUSE_STARTS: Final = frozenset({"SET", *(words.split()[0] for words, _ in REFUSED_CLAUSES)})
# Spark's alternatives put SQL's own reading of these words first where a value follows: ``SELECT a AND from``.
_TAKE_VALUES: Final = (TokenType.AND, TokenType.OR, TokenType.DIV, TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE)
_BEGIN_VALUES: Final = frozenset({*SIGNS, *STRINGS, TokenType.STAR, TokenType.NUMBER, TokenType.L_PAREN})
_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET)


class Words(Cursor):
    """What begins here: a construct of SQL, or a name that is the same word."""

    # Values.

    def _at_negation(self) -> bool:
        """Say whether NOT is here and negates what follows; Spark reads SELECT NOT FROM t so too."""
        if not self._at(TokenType.NOT):
            return False
        if self._next.token_type in SIGNS or (self._listing and self._next.token_type == TokenType.FROM):
            return True
        return self._as_keyword(TokenType.STAR)

    def _at_case(self) -> bool:
        """Say whether CASE begins an expression: a WHEN follows before the list or the parenthesis ends."""
        depth = 0
        for place in range(self._index + 1, len(self._tokens)):
            kind = self._tokens[place].token_type
            if depth == 0 and kind == TokenType.WHEN:
                return self._as_keyword(TokenType.STAR)
            depth += (kind in _OPENING) - (kind in _CLOSING)
            if depth < 0 or (depth == 0 and kind == TokenType.COMMA):
                break
        return self._readings is None and not self._name_ends(TokenType.STAR)

    def _at_interval(self) -> bool:
        """Say whether an amount follows INTERVAL; ``interval - a`` is arithmetic."""
        if self._next.token_type in (TokenType.STRING, TokenType.NUMBER):
            return True
        after = self._tokens[self._index + 2 : self._index + 3]
        amount = bool(after) and after[0].token_type in (TokenType.STRING, TokenType.NUMBER)
        return self._next.token_type in (TokenType.DASH, TokenType.PLUS) and amount and self._as_keyword()

    def _at_subquery(self) -> bool:
        """Say whether a subquery seems to begin here, and not a name."""
        begins = self._at(TokenType.SELECT, TokenType.WITH)
        return begins and self._readings is None and not self._name_ends()

    def _at_query(self) -> bool:
        """Say whether SELECT, FROM or WITH after a parenthesis begins a query; Spark looks for one first."""
        follows = self._next.token_type
        if self._at(TokenType.WITH):
            return self._at_subquery()
        if self._at(TokenType.SELECT) and follows in _BEGIN_VALUES:
            return True
        return bool(self._next) and (follows == TokenType.IDENTIFIER or self._bare(self._next))

    # Aliases.

    def _at_operator_alias(self) -> bool:
        """Say whether an operator's word among the outputs is the alias of what stands before it."""
        if self._next.token_type not in (TokenType.COMMA, TokenType.FROM) or not self._is_word():
            return False
        if self._next.token_type == TokenType.COMMA or self._at(*_TAKE_VALUES):
            return self._next.token_type == TokenType.COMMA
        return not self._at(TokenType.BETWEEN) or not self._as_keyword()

    def _at_alias(self) -> bool:
        """Say whether an output's alias is here, without AS."""
        if not self._at_name():
            return False
        if self._at(TokenType.FROM):  # a comma, or another FROM, follows an alias of that name
            twice = self._readings is not None and self._next.token_type == TokenType.FROM
            return self._next.token_type == TokenType.COMMA or (twice and self._as_keyword())
        word = self._curr.text.lower() if self._is_word() else ""
        return word not in RESERVED or self._next.token_type in (TokenType.COMMA, TokenType.FROM)

    def _at_table_alias(self) -> bool:
        """Say whether the alias of a stream or table is here, without AS; joins and clauses begin with other words."""
        if not self._at_name() or not self._is_word():
            return self._at_name()
        if self._curr.text.lower() in NO_TABLE_ALIAS | CLAUSES or self._at_arrangement():
            return False
        return self._readings is not None or self._name_ends() or not self._at_clause()

    def _at_arrangement(self) -> bool:
        """Say whether ORDER BY, LIMIT or OFFSET begins here; after an alias of that name would be no such word."""
        counted = self._at_word("LIMIT") or self._at_word("OFFSET")
        return self._at_word("ORDER", "BY") or (counted and self._next.token_type in (TokenType.NUMBER, TokenType.ALL))

    def _at_clause(self) -> bool:
        """Say whether a clause begins here that is refused by name."""
        if self._curr.text.upper() not in _CLAUSE_STARTS:
            return False
        return any(self._at_word(*words.split()) for words, _ in REFUSED_CLAUSES) or self._at_word("SET")
