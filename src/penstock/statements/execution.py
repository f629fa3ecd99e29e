"""Executes statements in the order they are written: changes the catalog and answers questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.catalog import Catalog, Kind
from penstock.errors import (
    CatalogError,
    PenstockError,
    UnknownFunction,
    UnknownQuery,
    UnknownStream,
    UnknownTable,
    Unsupported,
)
from penstock.language.binding.altering import with_options, with_window
from penstock.language.binding.query_text import write_name
from penstock.language.binding.stream_joins import is_stream_join
from penstock.language.functions.sql_functions import define
from penstock.language.grammar.dialect import WindowClause
from penstock.language.statements import (
    AlterQuery,
    AlterSource,
    CreateFunction,
    CreateQuery,
    CreateStream,
    CreateStreamAs,
    CreateTable,
    Creation,
    Drop,
    Pause,
    Question,
    Resume,
    Select,
    Statement,
)
from penstock.model.schema import Stream, Table
from penstock.statements.altered_sources import altered_source
from penstock.statements.query_binder import Named, QueryBinder
from penstock.statements.questions import Questions
from penstock.statements.stream_joins import joined_stream
from penstock.statements.user_functions import UserFunctions
from penstock.stream.declared_sources import DeclaredSources
from penstock.stream.query_changes import QueryChanges
from penstock.stream.registry import StreamRegistry
from penstock.stream.source_changes import SourceChanges

_ABOUT_NAMES = (CatalogError, UnknownQuery, UnknownStream, UnknownTable, UnknownFunction)


@dataclass(frozen=True, slots=True)
class Execution:
    """Carries out statements."""

    catalog: Catalog
    binder: QueryBinder
    questions: Questions
    sources: DeclaredSources
    functions: UserFunctions
    changes: QueryChanges
    streams: StreamRegistry
    source_changes: SourceChanges

    def run(self, statements: Iterable[Statement]) -> list[pa.Table]:
        """Carry out statements; queries that follow each other are entered together."""
        waiting: list[Named] = []
        names: set[str] = set()  # of those that wait
        answers: list[pa.Table] = []
        for statement in statements:
            if isinstance(statement, CreateQuery) and not statement.or_replace:
                name = statement.name.lower()
                if not (statement.if_not_exists and (name in names or self._exists(statement))):
                    waiting.append((statement.select, statement.name))
                    names.add(name)
                continue
            self._enter(waiting)
            waiting, names = [], set()
            answers += self._carried_out(statement)
        self._enter(waiting)
        return answers

    def replaced(self, statements: Iterable[Statement]) -> list[str]:
        """Let streams and tables go on as statements that create them say; return what differs."""
        found: list[str] = []
        for statement in statements:
            assert isinstance(statement, CreateStream | CreateTable)
            source = statement.stream if isinstance(statement, CreateStream) else statement.table
            try:
                found += self.source_changes.replace(source)
            except _ABOUT_NAMES as error:
                raise _located(error, statement) from None
        return found

    def _enter(self, queries: Sequence[Named]) -> None:
        """Enter queries, all of them or none."""
        if queries:
            self.changes.create(self.binder.typed_or_raise(queries))

    def _carried_out(self, statement: Statement) -> list[pa.Table]:
        """Carry out one statement; an error about its name is shown in its text."""
        try:
            if isinstance(statement, Question):
                return [self.questions.answer(statement)]
            self._change(statement)
        except _ABOUT_NAMES as error:
            raise _located(error, statement) from None
        return []

    def _replaced(self, name: str, select: Select) -> None:
        """Put a new definition in a query's place."""
        self.changes.replace(self.binder.typed(select, self.catalog.query(name).name))

    def _change(self, statement: Statement) -> None:
        """Carry out a statement that changes something."""
        match statement:
            case Drop():
                self._drop(statement)
            case AlterQuery():
                self._alter(statement)
            case AlterSource():
                self.source_changes.replace(altered_source(statement, self.catalog))
            case CreateStream() | CreateTable() | CreateFunction() | CreateQuery() | CreateStreamAs():
                if not (statement.if_not_exists and self._exists(statement)):
                    self._create(statement)
            case Select(text=text):
                what, hint = "a SELECT needs a name here", "Write CREATE QUERY name AS SELECT …"
                raise Unsupported(what, text=text, place=(0, len("SELECT")), hint=hint)

    def _create(self, statement: Creation) -> None:
        """Enter what a CREATE defines."""
        match statement:
            case CreateStream(stream=source) | CreateTable(table=source):
                self.source_changes.replace(source) if statement.or_replace else self.sources.enter(source)
            case CreateFunction():
                function = define(statement, self.catalog.functions())
                self.functions.check_body(function)
                self.catalog.create_function(function, statement.or_replace)
            case CreateQuery(name=name, select=select):
                if self._exists(statement):
                    self._replaced(name, select)
                else:
                    self.changes.create([self.binder.typed(select, name)])
            case CreateStreamAs(name=name, select=select) if is_stream_join(select, self.catalog):
                self.changes.create_joined(joined_stream(select, name, self.catalog, self.binder.typer))
            case CreateStreamAs(name=name, select=select):
                self.changes.create_stream(name, self.binder.typed(select, name))

    def _exists(self, statement: Creation) -> bool:
        """Tell whether what a CREATE would enter is there already."""
        kind: Kind
        match statement:
            case CreateStream(stream=Stream(name=name)) | CreateStreamAs(name=name):
                kind = "stream"
            case CreateTable(table=Table(name=name)):
                kind = "table"
            case CreateQuery(name=name):
                kind = "query"
            case CreateFunction(name=name):
                kind = "function"
        return self.catalog.has(kind, name)

    def _drop(self, statement: Drop) -> None:
        """Take a name out; a stream at work stops."""
        if statement.if_exists and not self.catalog.has(statement.kind, statement.name):
            return
        self.catalog.drop(statement.kind, statement.name)
        if statement.kind == "stream":
            self.streams.leave(statement.name)

    def _alter(self, statement: AlterQuery) -> None:
        """Change a query, pause it, or let it go on."""
        query = self.catalog.query(statement.name).query
        match statement.change:
            case Pause():
                self.changes.pause(query.name)
            case Resume():
                self.changes.resume(query.name)
            case Select() as select:
                self._replaced(query.name, select)
            case WindowClause() as window:
                self._replaced(query.name, with_window(query, window))
            case options:
                self._replaced(query.name, with_options(query, options))


def _located(error: PenstockError, statement: Statement) -> PenstockError:
    """Let an error that knows no place point at the name in its statement."""
    name = getattr(statement, "name", None) or getattr(statement, "target", None)
    if error.text is not None or not isinstance(name, str):
        return error
    text, shown = str(statement), write_name(name)
    at = text.find(f" {shown}") + 1
    return type(error)(error.what, text=text, place=(at, at + len(shown)), detail=error.detail, hint=error.hint)
