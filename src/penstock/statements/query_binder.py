"""Binds the names of queries and lets Spark type them, within the limits of an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.catalog import Catalog
from penstock.errors import LanguageError, PenstockError
from penstock.evaluate.typed import TypedQuery
from penstock.language.binding.bind import bind
from penstock.language.binding.pointing import pointing
from penstock.language.grammar.dialect import check_windows_at_a_time
from penstock.language.statements import Select
from penstock.model.function import Function
from penstock.model.schema import Table
from penstock.spark.typing import Bound, Typer
from penstock.statements.user_functions import UserFunctions

Named = tuple[Select, str]  # with the name of the query


@dataclass(frozen=True, slots=True)
class _Known:
    """What queries may name besides streams."""

    functions: Mapping[str, Function]
    tables: Mapping[str, Table]


@dataclass(frozen=True, slots=True)
class QueryBinder:
    """Turns SELECTs into typed queries."""

    catalog: Catalog
    typer: Typer
    functions: UserFunctions
    windows_at_a_time: int  # slides that a range may hold

    def typed(self, select: Select, name: str, *, asked: bool = False) -> TypedQuery:
        """Bind a query's names and let Spark type it; ``asked``: it is a one-time query, without SLIDE."""
        bound = self._bound(select, name, self._known(), asked=asked)
        try:
            return self.typer.type_query(bound.query, bound.stream, bound.tables, bound.own)
        except LanguageError as error:
            raise pointing(error, select) from None

    def typed_all(self, queries: Iterable[Named]) -> list[TypedQuery | PenstockError]:
        """Bind queries and let Spark type them together; an error in a query's place says what is wrong with it."""
        known, bound, found = self._known(), dict[int, Bound](), dict[int, TypedQuery | PenstockError]()
        selects: dict[int, Select] = {}
        for number, (select, name) in enumerate(queries):
            selects[number] = select
            try:
                bound[number] = self._bound(select, name, known)
            except PenstockError as error:
                found[number] = error
        for number, typed in zip(bound, self.typer.type_queries(list(bound.values())), strict=True):
            found[number] = pointing(typed, selects[number]) if isinstance(typed, LanguageError) else typed
        return [found[number] for number in sorted(found)]

    def typed_or_raise(self, queries: Iterable[Named]) -> list[TypedQuery]:
        """Bind and type queries together, or raise what is wrong with the first that has something wrong."""
        found: list[TypedQuery] = []
        for one in self.typed_all(queries):
            if isinstance(one, PenstockError):
                raise one
            found.append(one)
        return found

    def _known(self) -> _Known:
        """Look up once what every query is bound to."""
        return _Known(self.catalog.functions(), self.catalog.tables())

    def _bound(self, select: Select, name: str, known: _Known, *, asked: bool = False) -> Bound:
        """Resolve the names of a query, and check what does not need Spark."""
        query = bind(select, self.catalog, name, known.functions, asked=asked)
        if not asked:
            check_windows_at_a_time(query.window, self.windows_at_a_time, select.text)
        self.functions.require_for(query)
        return Bound(query, self.catalog.feeding(query.stream), known.tables, known.functions)
