"""Catalogs and typed queries without Spark: what it would say about types is made up."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa

from penstock.catalog import Catalog
from penstock.evaluate.functions.binding import bind_aggregate
from penstock.evaluate.typed import TypedQuery
from penstock.language.binding.bind import bind
from penstock.language.grammar.parse import parse_query
from penstock.language.statements import Select
from penstock.model.schema import Column, Stream, Table
from penstock.store.changes import ChangeLog

COLUMNS = (Column("ts", "timestamp"), Column("symbol", "string"), Column("price", "double"))
TRADES = Stream("trades", COLUMNS, "ts", 5_000_000, format="csv", options={"path": "x"}, dedup=("symbol",))
QUOTES = Stream("quotes", COLUMNS, "ts")
LISTING = Table("listing", (Column("symbol", "string"), Column("sector", "string")))
W = "[RANGE 2 min SLIDE 1 min]"
COUNT = f"SELECT count(*) AS n FROM trades {W}"


class Typing:
    """Makes up types for a catalog's queries, and counts how often it was asked."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog, self.asked = catalog, 0

    def __call__(self, select: Select, name: str) -> TypedQuery:
        self.asked += 1
        query = bind(select, self.catalog, name, self.catalog.functions())
        arguments = tuple(pa.float64() for aggregate in query.aggregates for _ in aggregate.arguments)
        types = iter(arguments)
        aggregates = tuple(bind_aggregate(a, [next(types) for _ in a.arguments]) for a in query.aggregates)
        keys, outputs = (pa.string(),) * len(query.keys), (pa.float64(),) * len(query.outputs)
        return TypedQuery(query, keys, aggregates, outputs, frozenset({"price"}), arguments)

    def text(self, text: str, name: str) -> TypedQuery:
        return self(parse_query(text), name)


def catalog_at(path: Path | None, *, clock: itertools.count[int] | None = None) -> tuple[Catalog, Typing]:
    """Open a catalog; its clock goes on by one with every reading."""
    ticks = clock or itertools.count(1_000)
    catalog = Catalog(ChangeLog(path), lambda: next(ticks))
    typing = Typing(catalog)
    catalog.restore(typing)
    return catalog, typing


def market(path: Path | None = None) -> tuple[Catalog, Typing]:
    """Make a catalog of two streams and a table."""
    catalog, typing = catalog_at(path)
    catalog.create_stream(TRADES)
    catalog.create_stream(QUOTES)
    catalog.create_table(LISTING)
    return catalog, typing
