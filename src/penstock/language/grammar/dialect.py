"""Parses SELECT into a sqlglot tree that keeps the window of CQL on its stream.

The window stands after the stream's name or alias (Arasu, Babu and Widom 2006, CQL; Krishnamurthy, Wu and Franklin
2006, section 2): ``FROM trades [RANGE 12 MIN SLIDE 5 MIN] t`` and ``FROM trades t [RANGE 12 MIN SLIDE 5 MIN]``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import InvalidWindow
from penstock.language.duration import parse_duration
from penstock.language.grammar.cursor import advice, placed
from penstock.language.grammar.limits import LONGEST_WINDOW_US, MAX_JOINS, MAX_KEYS, MAX_OUTPUTS, MAX_SLIDES
from penstock.language.grammar.literals import is_plain_word, quote
from penstock.language.grammar.order_by import OrderByGrammar
from penstock.language.grammar.readings import CLAUSES, RESERVED, SIGNS
from penstock.language.grammar.words import IN_BRACKETS, REFUSED_CLAUSES, STRINGS
from penstock.model.duration import format_duration
from penstock.model.window import Window

_JOINS: Final = {
    "CROSS": "CROSS joins",
    "FULL": "FULL joins",
    "RIGHT": "RIGHT joins",
    "NATURAL": "NATURAL joins",
    "SEMI": "SEMI joins",
    "ANTI": "ANTI joins",
    "LATERAL": "LATERAL VIEW and lateral joins",
}
_TWO_WORDS: Final = re.compile(r"[A-Z][ -][A-Z]")  # GROUP BY, USER-DEFINED: each word may be a name
_STREAM_OF_ITS_OWN: Final = "Make the inner query a stream of its own, CREATE STREAM name AS SELECT …, and read that."
_PARTITION_HINT: Final = "Write [PARTITION BY symbol ROWS 100 SLIDE 10]."


@dataclass(frozen=True, slots=True)
class WindowClause:
    """A window as written; ``slide`` is None when there is no SLIDE, and lengths are rows for ROWS.

    ``partition`` are the columns within whose values rows are counted apart.
    """

    kind: Literal["RANGE", "ROWS", "SESSION"]
    length: int
    slide: int | None
    offset_us: int = 0
    place: tuple[int, int] = field(default=(0, 1), compare=False)
    partition: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Print the window as the language writes it."""
        written = str if self.kind == "ROWS" else format_duration
        text = partition_by(self.partition) + f"{self.kind} {written(self.length)}"
        if self.slide is not None and self.kind != "SESSION":
            text += f" SLIDE {written(self.slide)}"
        return f"[{text} OFFSET {format_duration(self.offset_us)}]" if self.offset_us else f"[{text}]"


def partition_by(columns: Sequence[str]) -> str:
    """Write how a window's rows are counted apart, if they are."""
    return f"PARTITION BY {', '.join(map(_column, columns))} " if columns else ""


def _column(name: str) -> str:
    """Write a column's name, in backquotes only where it needs them."""
    reserved = name.upper() in Spark.Tokenizer.KEYWORDS or name.lower() in RESERVED
    return name if is_plain_word(name) and not reserved else quote(name)


def window_of(table: exp.Expr) -> WindowClause | None:
    """Return the window written after a table's name."""
    window = table.meta.get("window")
    return window if isinstance(window, WindowClause) else None


def check_windows_at_a_time(window: Window, most: int, text: str) -> None:
    """Refuse a window that holds each row more often than an engine is set to bear."""
    times = -(-window.length // window.slide)
    if times <= most:
        return
    first, last = text.find("["), text.find("]")
    place = (first, last + 1) if 0 <= first < last else (0, len(text))
    what = f"each row is in {times:,} windows of the query, and in so many answers"
    setting = "windows_at_a_time of the engine, or in penstock.yml under defaults"
    hint = f"Slide further, or raise {setting}, if the machine bears it."
    raise InvalidWindow(what, text=text, place=place, detail=f"at most {most:,} windows at a time", hint=hint)


def check_slides(range_us: int, slide_us: int, text: str, place: tuple[int, int] | None) -> None:
    """Refuse a window that moves too little for its length."""
    if range_us > MAX_SLIDES * slide_us:
        times = range_us // slide_us
        what = (
            f"a window of {format_duration(range_us)} every {format_duration(slide_us)} holds each row {times:,} times"
        )
        raise InvalidWindow(what, text=text, place=place, detail=f"at most {MAX_SLIDES:,} times", hint="Slide further.")


class SelectGrammar(OrderByGrammar):
    """SELECT … FROM stream [window] JOIN … WHERE … GROUP BY … HAVING … ORDER BY … LIMIT …"""

    def _parse_statement(self) -> exp.Expr:
        """Read a SELECT, or an expression that stands alone."""
        return self._select() if self._at(TokenType.SELECT, TokenType.WITH) else self._expression()

    def _select(self) -> exp.Select:
        """Read one SELECT up to its options."""
        if self._at(TokenType.WITH):
            self._refuse("common table expressions (WITH)", hint=_STREAM_OF_ITS_OWN)
        self._expect(TokenType.SELECT, "SELECT")
        if self._at(TokenType.HINT):
            self._refuse("hints")
        distinct = self._at(TokenType.DISTINCT) and not self._name_ends()
        every = self._at(TokenType.ALL) and (self._next.token_type in (*SIGNS, TokenType.FROM) or self._as_keyword())
        if distinct or every:
            self._advance()
        select = exp.Select(expressions=self._items(), distinct=exp.Distinct() if distinct else None)
        if not self._take(TokenType.FROM):
            hint = "A name that is a word of SQL stands in backquotes." if self._readings else None
            self._no_more() if self._curr else self._fail("expected FROM and a stream, found the end", hint=hint)
        select.set("from_", exp.From(this=self._source()))
        select.set("joins", self._joins())
        if self._take(TokenType.WHERE):
            select.set("where", exp.Where(this=self._expression()))
        if self._take_word("GROUP", "BY"):
            select.set("group", exp.Group(expressions=self._keys()))
        if self._take(TokenType.HAVING):
            select.set("having", exp.Having(this=self._expression()))
        self._arranged(select)
        return select

    def _no_more(self) -> NoReturn:
        """Complain about what follows where the statement should end."""
        for words, what in REFUSED_CLAUSES:
            if self._at_word(*words.split()):
                alias = not self._next or self._next.text.lower() in CLAUSES | {"join"}
                place = self._place_of_words(len(words.split()))
                told = IN_BRACKETS if words == "WINDOW" else None
                self._refuse(what, place, hint=advice(self._curr.text) if alias else told)
        self._fail(f"unexpected {self._shown()}")

    def _items(self) -> list[exp.Expr]:
        """Read the SELECT list."""
        self._listing = True
        items = [self._item()]
        while self._take(TokenType.COMMA):
            self._at_most(MAX_OUTPUTS, items, "outputs")
            items.append(self._item())
        self._listing = False
        return items

    def _item(self) -> exp.Expr:
        """Read one output and its alias."""
        first = self._curr
        value = self._expression()
        if self._at(TokenType.ALIAS) and self._as_keyword():
            self._advance()
            alias = self._name("an alias", any_word=True)
        elif self._at_alias():
            alias = self._name("an alias", any_word=True)
        else:
            return value
        return self._placed(exp.Alias(this=value, alias=alias), first)

    # FROM.

    def _source(self) -> exp.Table:
        """Read a stream or table with its window and alias, in either order."""
        first = self._curr
        self._refuse_subquery()
        table = exp.Table(this=self._name("a stream or table"))
        if self._at(TokenType.DOT):
            self._refuse("names of streams and tables with a dot")
        if self._at(TokenType.L_PAREN):
            self._refuse("table functions", hint=IN_BRACKETS)
        placed(table, table.this.meta["place"])
        window = self._window()
        alias = self._table_alias()
        second = self._window()
        if window and second:
            self._fail("a second window", second.place)
        if alias:
            table.set("alias", exp.TableAlias(this=alias))
        table.meta["window"] = window or second
        return self._placed(table, first) if table.meta["window"] else table

    def _refuse_subquery(self) -> None:
        """Refuse what may stand in FROM elsewhere; streams and tables may be called by its first words too."""
        values = self._at(TokenType.VALUES) and self._next.token_type in (TokenType.L_PAREN, TokenType.NUMBER, *STRINGS)
        if self._at(TokenType.L_PAREN) or values or self._at_subquery():
            self._refuse("subqueries in FROM")
        if self._at_word("LATERAL") and self._next and not self._name_ends():
            self._refuse("LATERAL VIEW and lateral joins", hint=advice(self._curr.text))

    def _table_alias(self) -> exp.Identifier | None:
        """Read the alias of a stream or table, if there is one."""
        if self._take(TokenType.ALIAS):
            return self._name("an alias", any_word=True)
        return self._name("an alias") if self._at_table_alias() else None

    def _joins(self) -> list[exp.Join]:
        """Read the joins after the stream."""
        joins: list[exp.Join] = []
        while join := self._join():
            self._at_most(MAX_JOINS, joins, "joins")
            joins.append(join)
        return joins

    def _join(self) -> exp.Join | None:
        """Read one join, with a comma or with words."""
        first = self._curr
        if self._take(TokenType.COMMA):
            return self._placed(exp.Join(this=self._source()), first)
        for word, what in _JOINS.items():
            if self._at_word(word) or self._at_word("LEFT", word):
                follows = self._next.text.lower()
                alias = not self._next or follows in CLAUSES or (follows == "join" and word in ("LATERAL", "NATURAL"))
                self._refuse(what, hint=advice(self._curr.text) if alias else None)
        side = "LEFT" if self._take_word("LEFT") else None
        self._take_word("OUTER") if side else self._take_word("INNER")
        if not self._take(TokenType.JOIN):
            return None if first is self._curr else self._fail(f"expected JOIN, found {self._shown()}")
        join = exp.Join(this=self._source(), side=side)
        if self._take(TokenType.ON):
            join.set("on", self._expression())
        elif self._take(TokenType.USING):
            join.set("using", self._using())
        return self._placed(join, first)

    def _using(self) -> list[exp.Identifier]:
        """Read the columns of USING."""
        self._expect(TokenType.L_PAREN, "(")
        columns = [self._name("a column")]
        while self._take(TokenType.COMMA):
            self._at_most(MAX_KEYS, columns, "columns in USING")
            columns.append(self._name("a column"))
        self._expect(TokenType.R_PAREN, ")")
        return columns

    # Windows.

    def _window(self) -> WindowClause | None:
        """Read a window in brackets, if there is one."""
        first = self._take(TokenType.L_BRACKET)
        if first is None:
            return None
        partition = self._partition()
        if not partition and self._take_word("SESSION"):
            return self._session(first)
        rows = self._take_word("ROWS")
        if partition and not rows:
            self._fail(f"expected ROWS after PARTITION BY, found {self._shown()}", hint=_PARTITION_HINT)
        if not rows and not self._take_word("RANGE") and not self._take_word("WINDOW"):
            self._fail(
                f"expected RANGE, WINDOW, ROWS or SESSION, found {self._shown()}",
                hint="Write [RANGE 12 MIN SLIDE 5 MIN].",
            )
        length = self._count() if rows else self._length("range")
        slide = None
        if self._take_word("SLIDE"):
            slide = self._count() if rows else self._length("slide")
        offset_us = self._duration()[0] if not rows and self._take_word("OFFSET") else 0
        self._refuse_zone()
        self._expect(TokenType.R_BRACKET, "]")
        place = (first.start, self._prev.end + 1)
        if slide is not None and rows and length > MAX_SLIDES * slide:
            what = f"a window of {length:,} rows every {slide:,} holds each row too often"
            detail = f"at most {MAX_SLIDES:,} times"
            raise InvalidWindow(what, text=self.sql, place=place, detail=detail, hint="Slide further.")
        if slide is not None and not rows:
            check_slides(length, slide, self.sql, place)
        return WindowClause("ROWS" if rows else "RANGE", length, slide, offset_us, place, partition)

    def _refuse_zone(self) -> None:
        """Refuse windows by the calendar of a time zone, and say why."""
        if self._at_word("TIME", "ZONE"):
            detail = "windows end at multiples of their slide, and a day of a time zone has 23, 24 or 25 hours"
            hint = "Ask for windows of an hour, and add up those of a day where answers are read (docs/answers.md)."
            self._refuse("windows in a time zone", self._place_of_words(2), hint=hint, detail=detail)

    def _session(self, first: Token) -> WindowClause:
        """Read the gap that ends a session."""
        gap_us = self._length("gap", "sessions")
        self._expect(TokenType.R_BRACKET, "]")
        return WindowClause("SESSION", gap_us, gap_us, 0, (first.start, self._prev.end + 1))

    def _partition(self) -> tuple[str, ...]:
        """Read PARTITION BY and its columns, if they are there."""
        if not self._take_word("PARTITION", "BY"):
            return ()
        columns = [self._name("a column")]
        while self._take(TokenType.COMMA):
            self._at_most(MAX_KEYS, columns, "columns in PARTITION BY")
            columns.append(self._name("a column"))
        return tuple(column.name for column in columns)

    def _count(self) -> int:
        """Read a number of rows."""
        token = self._expect(TokenType.NUMBER, "a number of rows")
        if not token.text.isdecimal() or not 0 < len(token.text) < 19 or int(token.text) == 0:
            self._invalid("a number of rows must be a positive integer", (token.start, token.end + 1))
        return int(token.text)

    def _length(self, what: str, of: str = "a window") -> int:
        """Read a range, slide or gap: more than nothing, less than a century."""
        length_us, place = self._duration()
        if length_us <= 0:
            self._invalid(f"the {what} of {of} must be longer than zero", place)
        if length_us > LONGEST_WINDOW_US:
            self._invalid(f"the {what} of {of} must be at most 100 years", place)
        return length_us

    def _duration(self) -> tuple[int, tuple[int, int]]:
        """Read a duration and where it stands."""
        first = self._curr
        while self._curr and not self._at(TokenType.R_BRACKET) and not self._at_clause_word():
            self._advance()
        if self._curr is first:
            self._fail(f"expected a duration such as 12 MIN, found {self._shown()}")
        return self._duration_between(first)

    def _at_clause_word(self) -> bool:
        """Say whether the next word of a window begins."""
        return any(self._at_word(word) for word in ("SLIDE", "OFFSET", "RANGE")) or self._at_word("TIME", "ZONE")

    def _duration_between(self, first: Token) -> tuple[int, tuple[int, int]]:
        """Convert the source from a token to the last one taken."""
        place = (first.start, self._prev.end + 1)
        try:
            return parse_duration(self.sql[slice(*place)]), place
        except InvalidWindow as error:
            raise InvalidWindow(error.what, text=self.sql, place=place, detail=error.detail, hint=error.hint) from None

    def _invalid(self, what: str, place: tuple[int, int]) -> NoReturn:
        """Raise an InvalidWindow."""
        raise InvalidWindow(what, text=self.sql, place=place)


class Penstock(Spark):
    """Spark's SQL with windows after streams; functions keep the names they are written with."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens, none of which swallows the rest of a statement or is made of two words."""

        KEYWORDS: ClassVar[dict[str, Any]] = {
            word: token for word, token in Spark.Tokenizer.KEYWORDS.items() if not _TWO_WORDS.search(word)
        }
        COMMANDS: ClassVar[set[Any]] = set()

    Parser = SelectGrammar
