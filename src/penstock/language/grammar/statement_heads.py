"""Tells statements apart by their first words and parses all that are not SELECT or CREATE."""

from __future__ import annotations

from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.language.grammar.clauses import ClauseDefinition
from penstock.language.grammar.create import CreateGrammar
from penstock.language.grammar.cursor import place_of
from penstock.language.grammar.limits import MAX_COLUMNS
from penstock.language.grammar.literals import word_set
from penstock.language.statements import (
    AddColumns,
    AlterQuery,
    AlterSource,
    Change,
    Describe,
    Drop,
    DropColumns,
    Explain,
    Listed,
    Pause,
    Question,
    Resume,
    SetLateness,
    SetOptions,
    Show,
    ShowCreate,
    SourceChange,
    Statement,
)
from penstock.model.schema import Column

_NOT_STATEMENTS: Final = word_set(
    """insert update delete merge truncate use set reset refresh analyze grant revoke call load cache uncache msck add
    list values from begin copy export import comment execute declare"""
)
_LISTED: tuple[Listed, ...] = ("streams", "tables", "queries", "functions")


class StatementGrammar(CreateGrammar):
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
            return self._whole_select()
        if self._take_word("CREATE"):
            return self._create()
        if self._take_word("DROP"):
            return self._drop()
        if self._take_word("ALTER"):
            return self._alter()
        question = self._question()
        if question is not None:
            return question
        if self._curr and self._curr.text.lower() in _NOT_STATEMENTS:
            self._refuse(f"{self._curr.text.upper()} statements")
        heads = "SELECT, CREATE, DROP, ALTER, EXPLAIN, SHOW or DESCRIBE"
        self._fail(f"expected {heads}, found {self._shown()}")

    def _drop(self) -> Drop:
        """Read what follows DROP."""
        kind = self._kind()
        there = self._take_word("IF", "EXISTS")
        return Drop(kind, self._name(f"the name of a {kind}").name, there)

    # ALTER.

    def _alter(self) -> AlterQuery | AlterSource:
        """Read what follows ALTER."""
        if self._at_word("FUNCTION"):
            self._refuse("ALTER FUNCTION statements", hint="Write CREATE OR REPLACE FUNCTION.")
        if self._take_word("STREAM"):
            return AlterSource("stream", self._name("the name of a stream").name, self._source_change("stream"))
        if self._take_word("TABLE"):
            return AlterSource("table", self._name("the name of a table").name, self._source_change("table"))
        self._expect_word("QUERY")
        return AlterQuery(self._name("the name of a query").name, self._change())

    def _source_change(self, kind: str) -> SourceChange:
        """Read what becomes of a stream or table."""
        if self._take_word("ADD", "COLUMN"):
            return AddColumns(self._added_columns(kind))
        if self._take_word("DROP", "COLUMN"):
            return DropColumns(self._dropped_columns())
        if self._take_word("SET", "OPTIONS"):
            return SetOptions(tuple(self._options(None).items()))
        if kind == "stream" and self._take_word("WATERMARK"):
            made = ClauseDefinition(exp.to_identifier("this stream"))
            self._watermark(made)
            assert made.time is not None
            return SetLateness(made.time, made.lateness_us)
        more = " or WATERMARK" if kind == "stream" else ""
        self._fail(f"expected ADD COLUMN, DROP COLUMN, SET OPTIONS{more}, found {self._shown()}")

    def _added_columns(self, kind: str) -> tuple[Column, ...]:
        """Read columns with their types."""
        found: list[Column] = []
        while not found or self._take(TokenType.COMMA):
            self._at_most(MAX_COLUMNS, found, "columns")
            place = self._here
            name, type_, computed = self._column(kind)
            if computed is not None:
                hint = "Write CREATE OR REPLACE STREAM with all of its columns."
                self._refuse("computed columns in ALTER STREAM", place, hint=hint)
            if name.name.lower() in (column.name.lower() for column in found):
                self._fail(f'column "{name.name}" is added twice', place_of(name))
            found.append(Column(name.name, type_))
        return tuple(found)

    def _dropped_columns(self) -> tuple[str, ...]:
        """Read names of columns."""
        found: list[str] = []
        while not found or self._take(TokenType.COMMA):
            self._at_most(MAX_COLUMNS, found, "columns")
            found.append(self._name("a column", any_word=True).name)
        return tuple(found)

    def _change(self) -> Change:
        """Read what becomes of the query."""
        if self._take(TokenType.ALIAS):
            return self._inner_select()
        if self._take_word("RESUME"):
            return Resume()
        if self._take_word("PAUSE"):
            return Pause()
        if self._at_word("RENAME"):
            hint = "Drop the query and create it under the other name."
            self._refuse("ALTER QUERY … RENAME statements", hint=hint)
        if not self._take_word("SET"):
            self._fail(f"expected AS, SET, PAUSE or RESUME, found {self._shown()}")
        if not self._take_word("WINDOW"):
            return self._query_options()
        window = self._window()
        if window is None:
            self._fail(f"expected a window such as [RANGE 12 MIN SLIDE 5 MIN], found {self._shown()}")
        return window

    # Questions.

    def _question(self) -> Question | None:
        """Read EXPLAIN, SHOW or DESCRIBE, if one is here."""
        if self._take_word("EXPLAIN"):
            return self._explain()
        if self._take_word("SHOW"):
            return self._show()
        if self._take_word("DESCRIBE") or self._take_word("DESC"):
            kind = self._kind()
            return Describe(kind, self._name(f"the name of a {kind}").name)
        return None

    def _explain(self) -> Explain:
        """Read what to explain: everything, a query, or a SELECT."""
        if not self._curr:
            return Explain()
        if self._take_word("QUERY"):
            return Explain(self._name("the name of a query").name)
        if self._at(TokenType.SELECT, TokenType.WITH):
            return Explain(self._inner_select())
        self._fail(f"expected QUERY, SELECT or the end, found {self._shown()}")

    def _show(self) -> Show | ShowCreate:
        """Read what to show."""
        if self._take_word("CREATE"):
            kind = self._kind()
            return ShowCreate(kind, self._name(f"the name of a {kind}").name)
        for listed in _LISTED:
            if self._take_word(listed.upper()):
                return Show(listed)
        self._fail(f"expected STREAMS, TABLES, QUERIES, FUNCTIONS or CREATE, found {self._shown()}")
