"""A small catalog, and a way to bind text against it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from penstock.language.binding.bind import bind
from penstock.language.grammar.parse import parse_query
from penstock.model.query import Query
from penstock.model.schema import Column, Stream, Table


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(Column(*column.split(" ", 1)) for column in text.split(", "))


class Catalog:
    """Streams and tables of the examples."""

    def __init__(self) -> None:
        trades = "symbol string, price double, volume bigint, vol bigint, ts timestamp, s struct<a:int>, tags array"
        quotes = "symbol string, bid double, ts timestamp, user string"
        self.streams = [Stream("trades", _columns(trades), "ts"), Stream("quotes", _columns(quotes), "ts")]
        self.tables = [
            Table("listing", _columns("symbol string, r2000 boolean, sector string")),
            Table("Close", _columns("Symbol string, close double")),
            Table("Index", _columns("Symbol string, weight double, sector string")),
        ]

    def stream(self, name: str) -> Stream | None:
        return next((s for s in self.streams if s.name.lower() == name.lower()), None)

    def table(self, name: str) -> Table | None:
        return next((t for t in self.tables if t.name.lower() == name.lower()), None)

    def stream_names(self) -> Iterable[str]:
        return [s.name for s in self.streams]

    def table_names(self) -> Iterable[str]:
        return [t.name for t in self.tables]


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog()


@pytest.fixture(scope="session")
def bound(catalog: Catalog) -> Callable[[str], Query]:
    """Bind a SELECT, and check on the way that its canonical text binds to an equal query."""

    def bind_twice(text: str) -> Query:
        query = bind(parse_query(text), catalog, "q")
        assert bind(parse_query(query.text), catalog, "q") == query
        return query

    return bind_twice
