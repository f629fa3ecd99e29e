"""Lets programs register Python functions and aggregates that queries may call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.catalog import Catalog
from penstock.language.functions.python_aggregates import AggregateWish, algebra_in
from penstock.language.functions.python_functions import Types, Wish
from penstock.statements.user_functions import UserFunctions


class Registering:
    """The part of an engine that lets queries call users' Python code."""

    catalog: Catalog
    _functions: UserFunctions

    def create_function(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        parameters: Types | None = None,
        returns: str | None = None,
        vectorised: bool = False,
        expensive: bool | None = None,
        replace: bool = False,
    ) -> None:
        """Let queries call a deterministic Python function by name; types that are not given, its hints tell.

        ``vectorised``: it takes and returns Arrow arrays instead of the values of one row. ``expensive``: for queries
        without a window it runs in workers of its own, behind a queue, on a local Spark; without a word about it, if
        that is what it costs.
        """
        wish = Wish(parameters, returns, vectorised, expensive)
        self._functions.create(name, function, wish, replace=replace)

    def create_aggregate(
        self,
        name: str,
        aggregate: Any,
        *,
        samples: Sequence[tuple[Any, ...]],
        parameters: Types | None = None,
        returns: str | None = None,
        replace: bool = False,
    ) -> None:
        """Let queries call an aggregate: a class with lift, combine and lower, perhaps identity and invert.

        It is entered if its laws hold on states made of the samples, each a tuple of arguments. Types that are not
        given, the hints of lift and lower tell.
        """
        wish = AggregateWish(parameters, returns, samples)
        self._functions.create_aggregate(name, algebra_in(name, aggregate), wish, replace=replace)

    def drop_function(self, name: str) -> None:
        """Forget a function or aggregate; Python code that queries call stays."""
        self.catalog.drop("function", name)
