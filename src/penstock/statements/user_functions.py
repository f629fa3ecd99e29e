"""Checks users' functions, enters them into the catalog and registers them in Spark's session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.catalog import Catalog
from penstock.errors import Unsupported
from penstock.evaluate.expressions.ddl import arrow_type
from penstock.evaluate.functions.laws import check_laws
from penstock.evaluate.functions.lower_values import check_answer
from penstock.language.functions.python_aggregates import AggregateWish, Algebra, define_aggregate
from penstock.language.functions.python_functions import Wish, define_python, wish_of
from penstock.model.function import Function
from penstock.model.query import Query
from penstock.model.schema import Column
from penstock.spark.functions.register import check_types, continued, provide, require_usable, with_code
from penstock.spark.typing import Typer


@dataclass(frozen=True, slots=True)
class UserFunctions:
    """Checks functions with Spark's help, and lets Spark find those of Python by name."""

    catalog: Catalog
    typer: Typer

    def create(self, name: str, called: Callable[..., Any], wish: Wish, *, replace: bool) -> None:
        """Enter a Python function; a mark on it tells what the wish does not."""
        function = define_python(name, called, wish_of(called) or wish if wish == Wish() else wish)
        check_types(function)
        known = self.catalog.functions().get(name.lower())
        if known == function:  # the same again
            return
        made, goes_on = continued(with_code(function, called), known)
        self.catalog.create_function(made, replace or goes_on)
        self.provide()

    def create_aggregate(self, name: str, algebra: Algebra, wish: AggregateWish, *, replace: bool) -> None:
        """Enter an aggregate written in Python, once its laws hold on the samples."""
        function = define_aggregate(name, algebra, wish)
        check_types(function)
        assert function.returns is not None
        answers = arrow_type(function.returns)
        if answers is None:
            what = f'aggregate "{name}" cannot return {function.returns}'
            raise Unsupported(what, hint="Return a number, a string, a time or a truth value.")
        known = self.catalog.functions().get(name.lower())
        if known == function:  # the same again
            return
        check_laws(name, algebra, wish.samples, partial(check_answer, answers))
        made, goes_on = continued(with_code(function, algebra.parts), known)
        self.catalog.create_function(made, replace or goes_on)
        self.provide()

    def provide(self) -> None:
        """Give the session the Python functions of the catalog."""
        provide(self.typer.session, self.catalog.python_functions())

    def check_body(self, function: Function) -> None:
        """Let Spark type the body of a function of SQL."""
        body = f"CAST({function.body} AS {function.returns})" if function.returns else function.body
        self.typer.type_of(body, [Column(p.name, p.type) for p in function.parameters], f"function {function.name}")

    def require_for(self, query: Query) -> None:
        """Refuse a query that calls a Python function whose code cannot be loaded here."""
        require_usable(f for f in self.catalog.python_functions() if f"{f.pinned}(" in query.text)
