"""Parses expressions with Spark's operators and precedences.

Sqlglot reads many dialects leniently: it lets BETWEEN lack its AND, gives ``&``, ``^`` and ``|`` one precedence and
rewrites functions. What users write here is handed to Spark again, so this grammar follows Spark's own, operator by
operator, and keeps every function under the name it was written with.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.language.grammar.calls import Calls
from penstock.language.grammar.cursor import advice, place_of
from penstock.language.grammar.limits import MAX_CHAIN, MAX_DEPTH
from penstock.language.grammar.literals import word_set
from penstock.language.grammar.operators import AND, BINARY, BIT_OR, COMPARISON, NOT, OR, PREDICATE, UNARY
from penstock.language.grammar.readings import RESERVED
from penstock.language.grammar.terms import TYPES
from penstock.language.grammar.words import STRINGS

_PREDICATES: Final = (TokenType.BETWEEN, TokenType.IN, TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE)
_PATTERNS: Final = {TokenType.LIKE: exp.Like, TokenType.ILIKE: exp.ILike, TokenType.RLIKE: exp.RegexpLike}
_TYPED_LITERALS: Final = word_set("date timestamp timestamp_ntz timestamp_ltz")
_FIELDS: Final = word_set(
    """year y years yr yrs yearofweek quarter qtr month mon mons months week w weeks day d days dayofweek dow
    dayofweek_iso dow_iso doy hour h hours hr hrs minute m min mins minutes second s sec seconds secs"""
)


def typed_literal(value: exp.Expr, type_: str) -> exp.Expr:
    """Build DATE '…' as a cast that remembers it is a literal: Spark checks it when it reads it, not row by row."""
    node = exp.Cast(this=value, to=exp.Var(this=type_))
    node.meta["literal"] = True
    return node


class Grammar(Calls):
    """Spark's expressions by precedence climbing, on sqlglot's tokens and tree."""

    def _parse_disjunction(self) -> exp.Expr:
        """Read one expression of any kind."""
        return self._expression()

    def _expression(self) -> exp.Expr:
        """Read one whole expression, not too deep for what comes after."""
        tree = self._climb(OR)
        waiting = [(tree, 1)]
        while waiting:
            node, depth = waiting.pop()
            self._count_node(tree)
            if depth > MAX_DEPTH:
                self._fail("nested too deeply", place_of(node))
            waiting += [(child, depth + 1) for child in node.iter_expressions()]
        return tree

    def _climb(self, lowest: int) -> exp.Expr:
        """Read operators that bind at least as tightly as ``lowest``; chains lean left."""
        first, length, ceiling = self._curr, 0, UNARY
        left = self._negations(first) if lowest <= NOT and self._at_negation() else self._signed()
        if isinstance(left, exp.Not):
            ceiling = AND
        while lowest <= (level := self._level()) <= ceiling:
            length += 1
            if length > MAX_CHAIN:
                self._fail(f"a chain of more than {MAX_CHAIN} operators")
            if level in (PREDICATE, COMPARISON):
                self._count_predicate()
            left = self._placed(self._infix(left, level), first)
            ceiling = NOT if level == PREDICATE else level
        return left

    def _level(self) -> int:
        """Return the precedence of the operator at hand; 0 if there is none."""
        if self._listing and self._at_operator_alias():
            return 0
        if self._at(*_PREDICATES, TokenType.IS) or (self._at(TokenType.NOT) and self._next.token_type in _PREDICATES):
            return PREDICATE
        return BINARY[self._curr.token_type][0] if self._curr and self._curr.token_type in BINARY else 0

    def _infix(self, left: exp.Expr, level: int) -> exp.Expr:
        """Read one operator and what follows it."""
        if level == PREDICATE:
            return self._predicate(left)
        _, kind = BINARY[self._curr.token_type]
        self._advance()
        return kind(this=left, expression=self._climb(level + 1))

    def _negations(self, first: Token) -> exp.Expr:
        """Read NOT, once or more, and what it negates."""
        count = 0
        while self._at_negation():
            self._advance()
            count += 1
            self._deeper()
        inner = self._climb(PREDICATE)
        self._nesting -= count
        for _ in range(count):
            inner = self._placed(exp.Not(this=inner), first)
        return inner

    def _signed(self) -> exp.Expr:
        """Read signs and the value after them."""
        first, signs = self._curr, list[TokenType]()
        while sign := self._take(TokenType.DASH, TokenType.TILDE, TokenType.PLUS):
            signs.append(sign.token_type)
            self._deeper()
        value = self._value()
        self._nesting -= len(signs)
        for sign_type in reversed(signs):
            value = self._placed(self._with_sign(sign_type, value), first)
        return value

    def _with_sign(self, sign: TokenType, value: exp.Expr) -> exp.Expr:
        """Apply one sign."""
        if sign == TokenType.DASH:
            return exp.Neg(this=value)
        if sign == TokenType.TILDE:
            return exp.BitwiseNot(this=value)
        if not isinstance(value, exp.Literal) or value.is_string:
            self._refuse("unary plus signs", value.meta["place"])
        return value

    # Predicates: Spark allows one after a value, and no chains of them.

    def _predicate(self, left: exp.Expr) -> exp.Expr:
        """Read IS, BETWEEN, IN, LIKE, ILIKE or RLIKE, with or without NOT."""
        if self._take(TokenType.IS):
            return self._is(left)
        negated = self._take(TokenType.NOT) is not None
        kind = self._curr.token_type
        self._advance()
        node = self._between(left) if kind == TokenType.BETWEEN else self._in(left) if kind == TokenType.IN else None
        node = node or self._pattern(left, kind)
        return exp.Not(this=node) if negated else node

    def _is(self, left: exp.Expr) -> exp.Expr:
        """Read what follows IS."""
        negated = self._take(TokenType.NOT) is not None
        node: exp.Expr
        if self._take_word("DISTINCT", "FROM"):
            node, negated = exp.NullSafeEQ(this=left, expression=self._climb(BIT_OR)), not negated
        elif self._take(TokenType.NULL) or self._take_word("UNKNOWN"):
            node = exp.Is(this=left, expression=exp.Null())
        elif truth := self._take(TokenType.TRUE, TokenType.FALSE):
            node = exp.Is(this=left, expression=exp.Boolean(this=truth.token_type == TokenType.TRUE))
        else:
            self._fail(f"expected NULL, TRUE, FALSE or DISTINCT FROM after IS, found {self._shown()}")
        return exp.Not(this=node) if negated else node

    def _between(self, left: exp.Expr) -> exp.Expr:
        """Read the two ends of BETWEEN."""
        low = self._climb(BIT_OR)
        self._expect(TokenType.AND, "AND")
        return exp.Between(this=left, low=low, high=self._climb(BIT_OR))

    def _in(self, left: exp.Expr) -> exp.Expr:
        """Read the list of IN."""
        self._open()
        values = self._list()
        self._close()
        return exp.In(this=left, expressions=values)

    def _pattern(self, left: exp.Expr, kind: TokenType) -> exp.Expr:
        """Read the pattern of LIKE and its kin."""
        if self._next.token_type == TokenType.L_PAREN and any(map(self._at_word, ("ANY", "SOME", "ALL"))):
            self._refuse("LIKE ANY and LIKE ALL")
        node: exp.Expr = _PATTERNS[kind](this=left, expression=self._climb(BIT_OR))
        if kind != TokenType.RLIKE and self._at(TokenType.ESCAPE) and self._next.token_type in STRINGS:
            self._advance()
            node = exp.Escape(this=node, expression=self._string())
        return node

    # Values.

    def _value(self) -> exp.Expr:
        """Read a value and the fields, elements and casts after it."""
        first = self._curr
        value, deeper = self._primary(), 0
        while self._at(TokenType.DOT, TokenType.L_BRACKET, TokenType.DCOLON):
            deeper += 1
            self._deeper()
            value = self._placed(self._postfix(value), first)
        self._nesting -= deeper
        return value

    def _postfix(self, value: exp.Expr) -> exp.Expr:
        """Read one ``.field``, ``[element]`` or ``::type``."""
        if self._take(TokenType.DOT):
            if star := self._take(TokenType.STAR):
                return exp.Dot(this=value, expression=self._placed(exp.Star(), star))
            return exp.Dot(this=value, expression=self._name("a field", any_word=True))
        if self._take(TokenType.DCOLON):
            return exp.Cast(this=value, to=exp.Var(this=self._type()))
        self._expect(TokenType.L_BRACKET, "[")
        index = self._climb(OR)
        self._expect(TokenType.R_BRACKET, "]")
        return exp.Bracket(this=value, expressions=[index])

    def _primary(self) -> exp.Expr:
        """Read a literal, a name, a call or anything in parentheses."""
        first = self._curr
        if self._at(TokenType.NUMBER, TokenType.DOT):
            return self._placed(self._number(), first)
        if self._at(*STRINGS):
            return self._string()
        if self._at(TokenType.L_PAREN):
            return self._parenthesised()
        if self._at(TokenType.CASE) and self._at_case():
            self._advance()
            return self._placed(self._case(), first)
        if self._take(TokenType.STAR):
            return self._placed(exp.Star(), first)
        return self._placed(self._constant() or self._word_value(), first)

    def _constant(self) -> exp.Expr | None:
        """Read NULL, a truth value, bytes or an interval, if one is here."""
        if self._take(TokenType.NULL):
            return exp.Null()
        if truth := self._take(TokenType.TRUE, TokenType.FALSE):
            return exp.Boolean(this=truth.token_type == TokenType.TRUE)
        if self._at(TokenType.HEX_STRING) and self.sql[self._curr.start] in "xX":
            return self._bytes()
        if self._at(TokenType.INTERVAL) and self._at_interval():
            self._advance()
            return self._interval()
        return None

    def _word_value(self) -> exp.Expr:
        """Read a call, a typed literal or a column's name."""
        word = self._curr.text.lower() if self._is_word() else ""
        follows = self._next.token_type
        if (word == "exists" and follows == TokenType.L_PAREN) or (self._index and self._at_subquery()):
            self._refuse("subqueries")
        if word in ("cast", "try_cast") and follows == TokenType.L_PAREN:
            return self._cast(exp.Cast if word == "cast" else exp.TryCast)
        if word == "extract" and follows == TokenType.L_PAREN:
            return self._extract()
        if word in _TYPED_LITERALS and follows in STRINGS:
            self._advance()
            return typed_literal(self._string(), TYPES[word])
        if follows == TokenType.L_PAREN and (word or self._at(TokenType.IDENTIFIER)):
            return self._call()
        if word == "current_path":  # which Spark calls whatever columns there are
            self._advance()
            return exp.Anonymous(this=word)
        return exp.Column(this=self._name("an expression"))

    def _parenthesised(self) -> exp.Expr:
        """Read an expression in parentheses."""
        first = self._curr
        self._open()
        if self._at(TokenType.SELECT, TokenType.FROM, TokenType.WITH) and self._at_query():
            column = self._next.text.lower() in RESERVED
            self._refuse("subqueries", hint=advice(self._curr.text) if column else None)
        inner = self._climb(OR)
        if self._at(TokenType.COMMA):
            self._refuse("row values", (first.start, first.end + 1))
        self._close()
        return self._placed(exp.Paren(this=inner), first)

    def _case(self) -> exp.Expr:
        """Read CASE up to its END."""
        self._deeper()
        searched = self._at(TokenType.WHEN) and self._as_keyword(TokenType.STAR)
        subject = None if searched else self._climb(OR)
        branches = []
        while self._take(TokenType.WHEN):
            condition = self._climb(OR)
            self._expect(TokenType.THEN, "THEN")
            branches.append(exp.If(this=condition, true=self._climb(OR)))
        if not branches:
            self._fail(f"expected WHEN after CASE, found {self._shown()}")
        default = self._climb(OR) if self._take(TokenType.ELSE) else None
        self._expect(TokenType.END, "END")
        self._nesting -= 1
        return exp.Case(this=subject, ifs=branches, default=default)

    def _cast(self, kind: type[exp.Expr]) -> exp.Expr:
        """Read CAST(value AS type)."""
        self._advance()
        self._open()
        value = self._climb(OR)
        self._expect(TokenType.ALIAS, "AS")
        to = self._type()
        self._close()
        return kind(this=value, to=exp.Var(this=to))

    def _extract(self) -> exp.Expr:
        """Read EXTRACT(field FROM value)."""
        self._advance()
        self._open()
        field = self._name("a field such as YEAR", any_word=True)
        if field.name.lower() not in _FIELDS:
            self._fail(f'there is no field "{field.name}"', field.meta["place"])
        self._expect(TokenType.FROM, "FROM")
        value = self._climb(OR)
        self._close()
        return exp.Extract(this=exp.Var(this=field.name.upper()), expression=value)
