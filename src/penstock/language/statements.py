"""Tokens of one statement come in; the statement as a frozen value goes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import LanguageError, UnknownColumn, WrongType, nearest
from penstock.language.canonical import render
from penstock.language.cursor import place_of, placed
from penstock.language.dialect import SelectGrammar, window_of
from penstock.language.literals import word_set
from penstock.language.scope import Scope, Source, resolve
from penstock.model.schema import Column, Stream, Table

DropKind = Literal["query", "stream", "table"]
_NOT_STATEMENTS: Final = word_set(
    """alter explain describe desc show insert update delete merge truncate use set reset refresh analyze grant revoke
    call load cache uncache msck add list values from begin copy export import comment execute declare"""
)


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT: its tree, and the user's text that places in the tree refer to."""

    expression: exp.Select
    text: str


@dataclass(frozen=True, slots=True)
class CreateStream:
    """CREATE STREAM."""

    stream: Stream


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE."""

    table: Table


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """CREATE QUERY name AS SELECT …"""

    name: str
    select: Select


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP QUERY, STREAM or TABLE."""

    kind: DropKind
    name: str


Statement = Select | CreateStream | CreateTable | CreateQuery | Drop


@dataclass(slots=True)
class _Definition:
    """What the clauses of a CREATE have said so far."""

    name: exp.Identifier
    columns: tuple[Column, ...] = ()
    format: str | None = None
    options: dict[str, str] | None = None
    time: str | None = None
    lateness_us: int = 0


class StatementGrammar(SelectGrammar):
    """The heads of statements, by recursive descent."""

    def read(self) -> Statement:
        """Read one whole statement."""
        statement = self._statement()
        if self._curr:
            self._fail(f"unexpected {self._shown()}")
        return statement

    def read_expression(self) -> exp.Expr:
        """Read one expression and nothing after it."""
        expression = self._expression()
        if self._curr:
            self._fail(f"unexpected {self._shown()}")
        return expression

    def _statement(self) -> Statement:
        """Tell statements by their first word."""
        if self._at(TokenType.SELECT, TokenType.WITH):
            return Select(self._select(), self.sql)
        if self._take_word("CREATE"):
            return self._create()
        if self._take_word("DROP"):
            kind = self._kind()
            return Drop(kind, self._own_name(f"the name of a {kind}").name)
        if self._curr and self._curr.text.lower() in _NOT_STATEMENTS:
            self._refuse(f"{self._curr.text.upper()} statements")
        self._fail(f"expected SELECT, CREATE or DROP, found {self._shown()}")

    def _kind(self) -> DropKind:
        """Read QUERY, STREAM or TABLE."""
        if self._at_word("OR", "REPLACE"):
            self._refuse("OR REPLACE clauses", hint="Drop the old one first.")
        kinds: tuple[DropKind, ...] = ("query", "stream", "table")
        for kind in kinds:
            if self._take_word(kind.upper()):
                return kind
        self._fail(f"expected QUERY, STREAM or TABLE, found {self._shown()}")

    def _own_name(self, what: str) -> exp.Identifier:
        """Read the name a statement is about."""
        if self._at_word("IF", "NOT", "EXISTS") or self._at_word("IF", "EXISTS"):
            self._refuse("IF EXISTS clauses")
        return self._name(what)

    def _create(self) -> Statement:
        """Read what follows CREATE."""
        kind = self._kind()
        name = self._own_name(f"the name of a {kind}")
        if kind == "query":
            self._expect(TokenType.ALIAS, "AS")
            return CreateQuery(name.name, self._inner_select())
        if self._at(TokenType.ALIAS):
            self._refuse(f"CREATE {kind.upper()} … AS SELECT statements")
        definition = _Definition(name, self._columns(kind, name))
        while self._clause(kind, definition):
            pass
        return self._stream(definition) if kind == "stream" else self._table(definition)

    def _inner_select(self) -> Select:
        """Read a SELECT as if it stood alone, so that its text can be read again."""
        start = self._here[0]
        tree = self._select()
        for node in tree.walk():
            if own := node.meta.get("place"):
                placed(node, (own[0] - start, own[1] - start))
            if window := window_of(node):
                node.meta["window"] = replace(window, place=(window.place[0] - start, window.place[1] - start))
        return Select(tree, self.sql[start : self._prev.end + 1])

    def _stream(self, made: _Definition) -> CreateStream:
        """Build a stream from its clauses."""
        options = dict(made.options or {})
        if made.time is None:
            hint = "Add WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS, with your own column of event time."
            self._fail(f'stream "{made.name.name}" has no WATERMARK', place_of(made.name), hint=hint)
        return CreateStream(
            Stream(
                made.name.name,
                made.columns,
                made.time,
                made.lateness_us,
                format=self._format(made),
                options=options,
            )
        )

    def _table(self, made: _Definition) -> CreateTable:
        """Build a table from its clauses."""
        return CreateTable(Table(made.name.name, made.columns, self._format(made), dict(made.options or {})))

    def _format(self, made: _Definition) -> str:
        """Return the format, which must have been given."""
        if made.format is None:
            self._fail(f'"{made.name.name}" has no USING', place_of(made.name), hint="Add USING csv, parquet, kafka …")
        return made.format

    # Columns.

    def _columns(self, kind: str, name: exp.Identifier) -> tuple[Column, ...]:
        """Read the columns in parentheses; computed ones may use the others. None given: the files tell."""
        if not self._at(TokenType.L_PAREN):
            return ()
        self._expect(TokenType.L_PAREN, "(")
        read = [self._column(kind)]
        while self._take(TokenType.COMMA):
            read.append(self._column(kind))
        self._expect(TokenType.R_PAREN, ")")
        seen: set[str] = set()
        for identifier, _, _ in read:
            if identifier.name.lower() in seen:
                self._fail(f'column "{identifier.name}" is there twice', place_of(identifier))
            seen.add(identifier.name.lower())
        plain = tuple(identifier.name for identifier, _, computed in read if computed is None)
        scope = Scope(self.sql, [Source("stream", name.name, name.name, plain)])
        return tuple(Column(i.name, kind_, self._computed(scope, computed)) for i, kind_, computed in read)

    def _column(self, kind: str) -> tuple[exp.Identifier, str, exp.Expr | None]:
        """Read one column: name, type, and the expression of a computed one."""
        name = self._name("a column", any_word=True)
        type_ = self._type()
        if self._take_word("NOT", "NULL"):
            self._refuse("NOT NULL columns", (self._prev.start, self._prev.end + 1))
        computed = None
        if self._at_word("GENERATED"):
            if kind == "table":
                self._refuse("computed columns of tables")
            self._expect_word("GENERATED", "ALWAYS", "AS")
            self._open()
            computed = self._expression()
            self._close()
        if self._take(TokenType.COMMENT):
            self._string()
        return name, type_, computed

    def _computed(self, scope: Scope, computed: exp.Expr | None) -> str | None:
        """Return the canonical text of a computed column."""
        if computed is None:
            return None
        return render(resolve(computed, scope, "a computed column"))

    # Clauses.

    def _clause(self, kind: str, made: _Definition) -> bool:
        """Read one clause into the definition; say whether there was one."""
        place = self._here
        if self._take(TokenType.USING):
            self._once(made.format, "USING", place)
            made.format = self._dotted("a format").lower()
        elif self._take_word("OPTIONS"):
            self._once(made.options, "OPTIONS", place)
            made.options = self._options()
        elif kind == "stream" and self._take_word("WATERMARK"):
            self._once(made.time, "WATERMARK", place)
            self._watermark(made)
        else:
            return False
        return True

    def _once(self, before: object, clause: str, place: tuple[int, int]) -> None:
        """Refuse a clause that was there before."""
        if before is not None:
            self._fail(f"a second {clause}", place)

    def _options(self) -> dict[str, str]:
        """Read ``k = 'v'``, ``k 'v'`` or ``'k' 'v'``, separated by commas."""
        self._expect(TokenType.L_PAREN, "(")
        options: dict[str, str] = {}
        while not self._at(TokenType.R_PAREN):
            place = self._here
            quoted = self._take(TokenType.STRING)  # one string only: the next one is the value
            key = self._string_value(quoted) if quoted else self._dotted("an option")
            self._take(TokenType.EQ)
            if key.lower() in (k.lower() for k in options):
                self._fail(f'option "{key}" is there twice', place)
            options[key] = self._option_value()
            if not self._take(TokenType.COMMA):
                break
        self._expect(TokenType.R_PAREN, ")")
        return options

    def _option_value(self) -> str:
        """Read an option's value as text."""
        if self._at(TokenType.NUMBER):
            return self._number().name
        if truth := self._take(TokenType.TRUE, TokenType.FALSE):
            return truth.text.lower()
        return self._string().name

    def _dotted(self, what: str) -> str:
        """Read a name that may hold dots."""
        parts = [self._name(what, any_word=True).name]
        while self._take(TokenType.DOT):
            parts.append(self._name(what, any_word=True).name)
        return ".".join(parts)

    def _watermark(self, made: _Definition) -> None:
        """Read ``FOR ts [AS ts [- duration]]``."""
        self._expect_word("FOR")
        time = self._name("the column of event time")
        column = self._time_column(time, made)
        if self._take(TokenType.ALIAS):
            again = self._name("the column of event time")
            if again.name.lower() != time.name.lower():
                self._fail(f'expected "{time.name}", found "{again.name}"', place_of(again))
            if self._take(TokenType.DASH):
                made.lateness_us = self._lateness()
        made.time = column.name

    def _lateness(self) -> int:
        """Read how late rows may be."""
        first = self._curr
        while self._curr and not self._at(TokenType.USING) and not self._at_word("OPTIONS"):
            self._advance()
        if self._curr is first:
            self._fail(f"expected a duration such as INTERVAL 5 SECONDS, found {self._shown()}")
        return self._duration_between(first)[0]

    def _time_column(self, time: exp.Identifier, made: _Definition) -> Column:
        """Find the column of event time and check its type, if columns were given."""
        if not made.columns:
            return Column(time.name, "timestamp")
        columns = {column.name.lower(): column for column in made.columns}
        column = columns.get(time.name.lower())
        if column is None:
            hint = nearest(time.name, [c.name for c in made.columns])
            self._raise(UnknownColumn, f'stream "{made.name.name}" has no column "{time.name}"', time, hint)
        if column.type not in ("timestamp", "timestamp_ntz"):
            what = f'the column of event time "{column.name}" is {column.type}, not timestamp'
            self._raise(WrongType, what, time, "Compute one: ts timestamp GENERATED ALWAYS AS (timestamp_millis(ms)).")
        return column

    def _raise(self, kind: type[LanguageError], what: str, node: exp.Expr, hint: str | None) -> NoReturn:
        """Raise an error of a kind at a node."""
        raise kind(what, text=self.sql, place=place_of(node), hint=hint)
