"""Converts typed queries to JSON records and back, so that a restart need not bind and type them again."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import astuple, fields, replace
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from penstock.evaluate.functions.binding import bind_aggregate
from penstock.evaluate.typed import Definition, Retimed, TypedQuery, with_window
from penstock.language.predicates.attributes import Attribute
from penstock.model.function import Function
from penstock.model.query import Aggregate, Join, Output, Query, SortKey
from penstock.model.window import EachRow, RowsWindow, SessionWindow, Window

Types = tuple[pa.DataType, ...]

_ROLES: Final = ("key", "argument", "output", "order")
FORM: Final = 2  # of what is written here; a query of another form is bound and typed anew from its text
WITHOUT_WINDOW: Final = 3  # the form of queries without a window: a version that does not know them reads their text
OF_SESSIONS: Final = 4  # the form of queries over sessions, for the same reason


def write_typed(typed: TypedQuery) -> dict[str, Any]:
    """Write a query and what Spark said about it."""
    query = _fields(typed.query) | {"window": _window_record(typed.query.window)}
    query |= {name: [_fields(one) for one in query[name]] for name in ("joins", "aggregates", "outputs", "order")}
    types = _types(typed.key_types, typed.argument_types, typed.output_types, typed.order_types)
    form = WITHOUT_WINDOW if typed.query.is_continuous else FORM
    form = OF_SESSIONS if isinstance(typed.query.window, SessionWindow) else form
    told: dict[str, Any] = {"form": form, "types": types, "columns": sorted(typed.columns)}
    told |= {"attributes": [astuple(a) for a in typed.attributes], "fallible": sorted(typed.fallible)}
    told |= {"where": typed.where}
    return {"text": query.pop("text"), "stream": query.pop("stream"), "bound": query, "typed": told}


def has_typed(record: Mapping[str, Any]) -> bool:
    """Tell whether a record holds a query that need not be bound and typed anew."""
    return record.get("typed", {}).get("form") in (FORM, WITHOUT_WINDOW, OF_SESSIONS)


def read_typed(record: Mapping[str, Any], own: Mapping[str, Function] | None = None) -> TypedQuery:
    """Read a query back, with the types it had when it was entered; ``own`` are the users' aggregates."""
    bound, told = record["bound"], record["typed"]
    query = Query(
        **{
            **bound,
            "text": record["text"],
            "stream": record["stream"],
            "window": EachRow() if told["form"] == WITHOUT_WINDOW else _window(bound["window"]),
            "joins": tuple(_join(join) for join in bound["joins"]),
            "keys": tuple(bound["keys"]),
            "aggregates": tuple(_aggregate(a) for a in bound["aggregates"]),
            "outputs": tuple(Output(**output) for output in bound["outputs"]),
            "sets": tuple(tuple(one) for one in bound.get("sets", ())),
            "options": tuple((name, value) for name, value in bound["options"]),
            "order": tuple(SortKey(**key) for key in bound.get("order", ())),
        }
    )
    schema = _schema(told["types"])
    types = {role: tuple(f.type for f in schema if f.name == role) for role in _ROLES}
    arguments = iter(types["argument"])
    aggregates = tuple(bind_aggregate(a, [next(arguments) for _ in a.arguments], own) for a in query.aggregates)
    return TypedQuery(
        query,
        types["key"],
        aggregates,
        types["output"],
        frozenset(told["columns"]),
        types["argument"],
        tuple(Attribute(*one) for one in told["attributes"]),
        frozenset(told["fallible"]),
        told["where"],
        types["order"],
    )


def as_recorded(definition: Definition, record: Mapping[str, Any]) -> Definition:
    """Let a definition run at the period that stands beside its text, if there is one."""
    if "period_us" not in record:
        return definition
    asked = definition.query.window
    typed = with_window(definition.typed, asked.every(record["period_us"]))
    return replace(definition, typed=typed, retimed=Retimed(asked, record["first"]))


def _window_record(window: Window) -> dict[str, Any]:
    """Write a window by the names that state folders have had from the first; of one of rows they count rows."""
    lengths = {"range_us": window.length, "slide_us": window.slide, "offset_us": window.offset}
    if isinstance(window, SessionWindow):
        return lengths | {"session": True}
    return lengths | ({"partition": window.partition} if isinstance(window, RowsWindow) else {})


def _window(record: Mapping[str, Any]) -> Window:
    """Read a window back; one of rows tells how they are counted apart."""
    lengths = record["range_us"], record["slide_us"], record["offset_us"]
    if "partition" in record:
        return RowsWindow(*lengths, partition=tuple(record["partition"]))
    return SessionWindow(*lengths) if "session" in record else Window(*lengths)


def _aggregate(record: Mapping[str, Any]) -> Aggregate:
    """Read one aggregate back; an older record tells of function and arguments only."""
    parameters = (tuple(p) if isinstance(p, list) else p for p in record.get("parameters", ()))
    arguments, row = tuple(record["arguments"]), tuple(record.get("row", ()))
    return Aggregate(record["function"], arguments, tuple(parameters), record.get("distinct", False), row)


def _join(record: Mapping[str, Any]) -> Join:
    """Read one join back."""
    keys = {name: tuple(record[name]) for name in ("stream_keys", "table_keys")}
    return Join(**{**record, **keys})


def _fields(one: Query | Join | Aggregate | Output | SortKey) -> dict[str, Any]:
    """List the fields of a value, which are shared with it."""
    return {field.name: getattr(one, field.name) for field in fields(one)}


@lru_cache(maxsize=1_000)
def _types(*by_role: Types) -> str:
    """Write Arrow's types as text: of the keys, the aggregates' arguments, the outputs, and what ORDER BY adds."""
    schema = pa.schema([pa.field(role, t) for role, types in zip(_ROLES, by_role, strict=True) for t in types])
    return base64.b64encode(schema.serialize()).decode()


@lru_cache(maxsize=1_000)
def _schema(text: str) -> pa.Schema:
    """Read Arrow's types back; most queries have the same few."""
    return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(text)))
