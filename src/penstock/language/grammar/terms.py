"""Parses literals (numbers, strings, bytes, intervals) and types."""

from __future__ import annotations

import re
import sys
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.language.grammar.limits import MAX_DIGITS, MAX_PARTS
from penstock.language.grammar.literals import NUMBER, read_string, word_set
from penstock.language.grammar.words import STRINGS, Words

TYPES: Final = {
    "boolean": "boolean", "tinyint": "tinyint", "byte": "tinyint", "smallint": "smallint", "short": "smallint",
    "int": "int", "integer": "int", "bigint": "bigint", "long": "bigint", "float": "float", "real": "float",
    "double": "double", "date": "date", "timestamp": "timestamp", "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz", "string": "string", "binary": "binary",
}  # fmt: skip
_INTERVAL_UNITS: Final = word_set("year month week day hour minute second millisecond microsecond")
_SPAN_UNITS: Final = word_set("year month day hour minute second")
_INTERVAL_PARTS: Final = re.compile(r"\s*([+-]?[0-9]+(?:\.[0-9]+)?)\s+([A-Za-z]+)")
_SUFFIX: Final = re.compile(r"(?:L|S|Y|D|F|BD)\Z")
# Of a negative number, which is written as a sign and this.
_INTEGERS: Final = {"L": 1 << 63, "S": 1 << 15, "Y": 1 << 7}
_KINDS: Final = {"L": "a bigint", "S": "a smallint", "Y": "a tinyint"}
_LARGEST_FLOAT: Final = 3.4028234663852886e38


class Terms(Words):
    """Literals and types, as Spark spells them."""

    def _number(self) -> exp.Expr:
        """Read a number as Spark spells it; ``5L`` stays one literal."""
        first = self._curr
        self._advance()
        if first.token_type == TokenType.DOT:
            self._expect(TokenType.NUMBER, "a number")
        last = self._prev
        if self._at(TokenType.DCOLON) and self._curr.start == last.start:
            # The tokenizer renders the suffix of 5L as a cast of the same place.
            self._advance(2)
        source = self.sql[first.start : last.end + 1]
        if not NUMBER.match(source):
            self._fail(f'"{source[:40]}" is not a number', (first.start, last.end + 1))
        self._check_fit(source.upper(), (first.start, last.end + 1))
        return exp.Literal.number(source.upper())

    def _check_fit(self, source: str, place: tuple[int, int]) -> None:
        """Refuse a number that Spark has no type for."""
        suffix = _SUFFIX.search(source)
        digits, kind = (source[: suffix.start()], suffix[0]) if suffix else (source, "")
        if kind in _INTEGERS and (not digits.isdecimal() or len(digits) > 19 or int(digits) > _INTEGERS[kind]):
            self._fail(f'"{_short(source)}" does not fit {_KINDS[kind]}', place)
        if kind in ("", "BD") and "E" not in digits and sum(map(str.isdecimal, digits.lstrip("0."))) > MAX_DIGITS:
            self._fail(f'"{_short(source)}" has more than {MAX_DIGITS} digits', place)
        exponent = digits.partition("E")[2]
        if len(digits) > 400 or len(exponent) > 4 or (kind == "BD" and exponent and abs(int(exponent)) > MAX_DIGITS):
            self._fail(f'"{_short(source)}" is out of range', place)
        largest = _LARGEST_FLOAT if kind == "F" else sys.float_info.max
        if (kind in ("D", "F") or "E" in digits) and kind != "BD" and float(digits) > largest:
            self._fail(f'"{_short(source)}" is out of range', place)

    def _string(self) -> exp.Expr:
        """Read one string, or several in a row as one."""
        first = self._curr
        if not self._at(*STRINGS):
            self._fail(f"expected a string, found {self._shown()}")
        value = ""
        while token := self._take(*STRINGS):
            if token is not first and self.sql[token.start] == self.sql[token.start - 1]:
                value += self.sql[token.start]  # 'it''s': the tokenizer sees two strings
            value += self._string_value(token)
        return self._placed(exp.Literal.string(value), first)

    def _string_value(self, token: Token) -> str:
        """Return the value of a string token, read from the source as Spark reads it."""
        try:
            return read_string(self.sql[token.start : token.end + 1])
        except ValueError:
            self._fail("the string holds half of a character (a lone surrogate)", (token.start, token.end + 1))

    def _bytes(self) -> exp.Expr:
        """Read X'1F'."""
        token = self._curr
        digits = self.sql[token.start + 2 : token.end]
        if re.fullmatch(r"[0-9a-fA-F]*", digits) is None:
            self._fail("X'…' holds something other than hexadecimal digits")
        self._advance()
        return exp.HexString(this=digits.upper())

    def _interval(self) -> exp.Expr:
        """Read the amounts and units of an INTERVAL."""
        first = self._curr
        parts: list[tuple[str, str]] = []
        while True:
            sign = self._take(TokenType.DASH, TokenType.PLUS)
            if not self._at(TokenType.STRING, TokenType.NUMBER):
                break
            amount = self._string().name if self._at(TokenType.STRING) else self._number().name
            amount = f"-{amount}" if sign and sign.token_type == TokenType.DASH else amount
            unit = self._unit()
            if self._take_word("TO"):
                return self._span(amount, unit or "", first)
            parts += [(amount, unit)] if unit else self._written_parts(amount, first)
            self._at_most(MAX_PARTS, parts, "parts of an interval")
            if not self._at(TokenType.STRING, TokenType.NUMBER):
                break
        return self._interval_of(parts, first)

    def _unit(self) -> str | None:
        """Read a unit of time, if one is here."""
        word = self._curr.text.lower() if self._is_word() else ""
        unit = word if word in _INTERVAL_UNITS else word.removesuffix("s")
        if unit not in _INTERVAL_UNITS:
            return None
        self._advance()
        return unit

    def _written_parts(self, amount: str, first: Token) -> list[tuple[str, str]]:
        """Split ``'1 hour 30 minutes'``."""
        pieces = [(m[1], m[2].lower()) for m in _INTERVAL_PARTS.finditer(amount)]
        pieces = [(n, u if u in _INTERVAL_UNITS else u.removesuffix("s")) for n, u in pieces]
        rest = _INTERVAL_PARTS.sub("", amount).strip()
        if rest or not pieces or any(u not in _INTERVAL_UNITS for _, u in pieces):
            self._fail("expected an amount and a unit of time", (first.start, self._prev.end + 1))
        return pieces

    def _interval_of(self, parts: list[tuple[str, str]], first: Token) -> exp.Expr:
        """Build an interval of one unit, or of several in Spark's string form."""
        if not parts or any(re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", amount.strip()) is None for amount, _ in parts):
            self._fail("expected an amount and a unit of time", (first.start, self._prev.end + 1))
        if len(parts) == 1:
            return exp.Interval(this=exp.Literal.string(parts[0][0].strip()), unit=exp.Var(this=parts[0][1].upper()))
        return exp.Interval(this=exp.Literal.string(" ".join(f"{n.strip()} {u}" for n, u in parts)))

    def _span(self, amount: str, start: str, first: Token) -> exp.Expr:
        """Build ``INTERVAL '1 02:03' DAY TO MINUTE``."""
        end = self._unit()
        if {start, end} - _SPAN_UNITS or re.fullmatch(r"[+-]?[0-9 :.-]+", amount) is None:
            self._fail("this span of units does not exist", (first.start, self._prev.end + 1))
        return exp.Interval(this=exp.Literal.string(amount), unit=exp.Var(this=f"{start} TO {end}".upper()))

    # Types.

    def _type(self) -> str:
        """Read a type and return it as Spark's DDL spells it."""
        name = self._name("a type", any_word=True)
        word = name.name.lower()
        if word in TYPES:
            return TYPES[word]
        if word in ("decimal", "dec", "numeric"):
            return self._decimal()
        if word in ("varchar", "char", "character"):
            self._refuse(f"{word} types", name.meta["place"], hint="Write string.")
        if word not in ("array", "map", "struct"):
            self._fail(f'there is no type "{name.name}"', name.meta["place"])
        self._deeper()
        self._expect(TokenType.LT, "<")
        inner = self._fields() if word == "struct" else self._inner_types(2 if word == "map" else 1)
        self._expect(TokenType.GT, ">")
        self._nesting -= 1
        return f"{word}<{inner}>"

    def _decimal(self) -> str:
        """Read a decimal's precision and scale."""
        if not self._take(TokenType.L_PAREN):
            return "decimal(10,0)"
        precision, scale = self._small_number(), 0
        if self._take(TokenType.COMMA):
            scale = self._small_number()
        self._expect(TokenType.R_PAREN, ")")
        if not (1 <= precision <= 38 and scale <= precision):
            self._fail(f"there is no decimal({precision},{scale})", (self._prev.start, self._prev.end + 1))
        return f"decimal({precision},{scale})"

    def _small_number(self) -> int:
        """Read an integer of at most three digits."""
        token = self._expect(TokenType.NUMBER, "a number")
        if re.fullmatch(r"[0-9]{1,3}", token.text) is None:
            self._fail("expected a small integer", (token.start, token.end + 1))
        return int(token.text)

    def _inner_types(self, count: int) -> str:
        """Read the types inside array<…> or map<…>."""
        inner = [self._type()]
        while len(inner) < count:
            self._expect(TokenType.COMMA, ",")
            inner.append(self._type())
        return ",".join(inner)

    def _fields(self) -> str:
        """Read the fields of a struct."""
        fields: list[str] = []
        while not fields or self._take(TokenType.COMMA):
            name = self._name("a field", any_word=True).name
            self._take(TokenType.COLON)
            shown = name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else f"`{name.replace('`', '``')}`"
            fields.append(f"{shown}:{self._type()}")
        return ",".join(fields)


def _short(source: str) -> str:
    """Shorten a number for a message."""
    return source if len(source) <= 40 else source[:37] + "..."
