"""Binds the names of queries and lets Spark type them, within the limits of an engine."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.catalog import Catalog
from penstock.evaluate.typed import TypedQuery
from penstock.language.binding.bind import bind
from penstock.language.grammar.dialect import check_windows_at_a_time
from penstock.language.statements import Select
from penstock.spark.typing import Typer
from penstock.statements.user_functions import UserFunctions


@dataclass(frozen=True, slots=True)
class QueryBinder:
    """Turns a SELECT into a typed query."""

    catalog: Catalog
    typer: Typer
    functions: UserFunctions
    windows_at_a_time: int  # slides that a range may hold

    def typed(self, select: Select, name: str, *, asked: bool = False) -> TypedQuery:
        """Bind a query's names and let Spark type it; ``asked``: it is a one-time query, without SLIDE."""
        query = bind(select, self.catalog, name, self.catalog.functions(), asked=asked)
        if not asked:
            check_windows_at_a_time(query.window, self.windows_at_a_time, select.text)
        self.functions.require_for(query)
        stream = self.catalog.feeding(query.stream)
        return self.typer.type_query(query, stream, self.catalog.tables(), self.catalog.functions())
