"""Binds a window join of two streams, lets Spark type it, and describes it as a stream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from penstock.catalog import Catalog
from penstock.errors import Unsupported, WrongType
from penstock.language.binding.stream_joins import bind_stream_join
from penstock.language.predicates.attributes import may_fail, parts_of
from penstock.language.statements import Select
from penstock.model.derived import pairs_stream
from penstock.model.schema import Column, Stream
from penstock.model.stream_join import LEFT, RIGHT, StreamJoin
from penstock.spark.typing import Typer

_KEYS: Final = re.compile(
    r"tinyint|smallint|int|bigint|float|double|decimal\(\d+,\d+\)|string|binary|boolean|date|timestamp|timestamp_ntz"
)


def joined_stream(select: Select, name: str, catalog: Catalog, typer: Typer) -> Stream:
    """Describe the stream of pairs that a join of two streams is."""
    join, text = bind_stream_join(select, catalog, catalog.functions())
    named = _named(join, catalog)
    _check_keys(join, named, select.text)
    texts = [*([join.where] if join.where else []), *(output.expression for output in join.outputs)]
    asked = list(dict.fromkeys(part for one in texts for part in (one, *parts_of(one))))
    columns = tuple(Column(column, found) for column, found in named.items())
    types = dict(zip(asked, typer.types_of(asked, columns, select.text), strict=True))
    if join.where and types[join.where] not in ("boolean", "void"):
        what = f"the condition of a join needs a boolean, but {join.where} is {types[join.where]}"
        raise WrongType(what, detail=select.text)
    for output in join.outputs:
        if types[output.expression] == "void":
            what, hint = f'output "{output.name}" has no type', "Cast it: CAST(NULL AS INT)."
            raise WrongType(what, detail=select.text, hint=hint)
    join = replace(join, fallible=any(may_fail(one, types) for one in texts))
    return pairs_stream(name, join, [Column(o.name, types[o.expression]) for o in join.outputs], text)


def _named(join: StreamJoin, catalog: Catalog) -> dict[str, str]:
    """List the columns of both sides and their types, as expressions name them."""
    found: dict[str, str] = {}
    for before, side in ((LEFT, join.left), (RIGHT, join.right)):
        found |= {before + column.name: column.type for column in catalog.known_stream(side.stream).columns}
    return found


def _check_keys(join: StreamJoin, types: Mapping[str, str], text: str) -> None:
    """Refuse keys whose types differ, or cannot be compared."""
    for left, right in zip(join.left.keys, join.right.keys, strict=True):
        one, other = types[LEFT + left].lower(), types[RIGHT + right].lower()
        shown = f"{join.left.stream}.{left} is {one}, {join.right.stream}.{right} is {other}"
        if one != other:
            what, hint = (
                "the keys of a join of two streams must have the same type",
                "Give one stream a computed column of the other's type.",
            )
            raise WrongType(what, text=text, place=(0, len(text)), detail=shown, hint=hint)
        if _KEYS.fullmatch(one) is None:
            what, hint = (
                f"streams cannot be joined by a column of type {one}",
                "Equate columns of numbers, text or times.",
            )
            raise Unsupported(what, text=text, place=(0, len(text)), detail=shown, hint=hint)
