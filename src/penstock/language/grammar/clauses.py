"""Parses the columns and clauses (USING, OPTIONS, WATERMARK) of CREATE STREAM and CREATE TABLE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.errors import LanguageError, UnknownColumn, WrongType, nearest
from penstock.language.binding.canonical import render
from penstock.language.binding.scope import Scope, Source, resolve
from penstock.language.grammar.cursor import place_of
from penstock.language.grammar.dialect import SelectGrammar
from penstock.language.grammar.limits import MAX_COLUMNS, MAX_OPTIONS
from penstock.language.statements import CreateStream, CreateTable
from penstock.language.stream_options import OWN_OPTIONS, check_dedup, read_own
from penstock.model.schema import Column, Stream, Table
from penstock.sources.registry import FORMATS


@dataclass(slots=True)
class ClauseDefinition:
    """What the clauses of a CREATE have said so far."""

    name: exp.Identifier
    if_not_exists: bool = False
    columns: tuple[Column, ...] = ()
    format: str | None = None
    options: dict[str, str] | None = None
    own: dict[str, Any] = field(default_factory=dict)  # fields of a stream that its own options set
    time: str | None = None
    lateness_us: int = 0


class ClauseGrammar(SelectGrammar):
    """Columns, USING, OPTIONS and WATERMARK."""

    def _stream(self, made: ClauseDefinition) -> CreateStream:
        """Build a stream from its clauses."""
        if made.time is None:
            hint = "Add WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS, with your own column of event time."
            self._fail(f'stream "{made.name.name}" has no WATERMARK', place_of(made.name), hint=hint)
        format_, options = self._format(made), made.options or {}
        stream = Stream(
            made.name.name, made.columns, made.time, made.lateness_us, format=format_, options=options, **made.own
        )
        return CreateStream(stream, made.if_not_exists)

    def _table(self, made: ClauseDefinition) -> CreateTable:
        """Build a table from its clauses."""
        table = Table(made.name.name, made.columns, self._format(made), made.options or {})
        return CreateTable(table, made.if_not_exists)

    def _format(self, made: ClauseDefinition) -> str:
        """Return the format, which must have been given."""
        if made.format is None:
            hint = f"Add USING {', '.join(FORMATS)}."
            self._fail(f'"{made.name.name}" has no USING', place_of(made.name), hint=hint)
        return made.format

    # Columns.

    def _columns(self, kind: str, name: exp.Identifier) -> tuple[Column, ...]:
        """Read the columns in parentheses; computed ones may use the others. None given: the files tell."""
        if not self._at(TokenType.L_PAREN):
            return ()
        self._expect(TokenType.L_PAREN, "(")
        read = [self._column(kind)]
        while self._take(TokenType.COMMA):
            self._at_most(MAX_COLUMNS, read, "columns")
            read.append(self._column(kind))
        self._expect(TokenType.R_PAREN, ")")
        seen: set[str] = set()
        for identifier, _, _ in read:
            if identifier.name.lower() in seen:
                self._fail(f'column "{identifier.name}" is declared twice', place_of(identifier))
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

    def _clause(self, kind: str, made: ClauseDefinition) -> bool:
        """Read one clause into the definition; say whether there was one."""
        place = self._here
        if self._take(TokenType.USING):
            self._once(made.format, "USING", place)
            made.format = self._dotted("a format").lower()
        elif self._take_word("OPTIONS"):
            self._once(made.options, "OPTIONS", place)
            made.options = self._options(made if kind == "stream" else None)
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

    def _options(self, stream: ClauseDefinition | None) -> dict[str, str]:
        """Read ``k = 'v'``, ``k 'v'`` or ``'k' 'v'``, separated by commas; a stream keeps its own for itself."""
        self._expect(TokenType.L_PAREN, "(")
        options: dict[str, str] = {}
        seen: set[str] = set()
        while not self._at(TokenType.R_PAREN):
            place = self._here
            key = self._option_name()
            self._take(TokenType.EQ)
            if key.lower() in seen:
                self._fail(f'option "{key}" is given twice', place)
            self._at_most(MAX_OPTIONS, seen, "options")
            seen.add(key.lower())
            value = self._option_value()
            if stream is not None and key.lower() in OWN_OPTIONS:
                stream.own |= self._own(key.lower(), value, stream, (place[0], self._prev.end + 1))
            else:
                options[key] = value
            if not self._take(TokenType.COMMA):
                break
        self._expect(TokenType.R_PAREN, ")")
        return options

    def _own(self, name: str, value: str, stream: ClauseDefinition, place: tuple[int, int]) -> dict[str, Any]:
        """Read an option of the stream itself; key columns are checked if columns were given."""
        try:
            read = read_own(name, value)
            if "dedup" in read and stream.columns:
                read["dedup"] = check_dedup(read["dedup"], stream.columns, stream.name.name)
            return read
        except LanguageError as error:
            raise type(error)(error.what, text=self.sql, place=place, detail=error.detail, hint=error.hint) from None

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

    def _watermark(self, made: ClauseDefinition) -> None:
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

    def _time_column(self, time: exp.Identifier, made: ClauseDefinition) -> Column:
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

    def _option_name(self) -> str:
        """Read an option's name: a word, a dotted name, or a string."""
        quoted = self._take(TokenType.STRING)  # one string only: the next one is the value
        return self._string_value(quoted) if quoted else self._dotted("an option")
