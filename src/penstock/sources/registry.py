"""Lists the formats that streams and tables are read from.

A new format is a file here that describes it, a file in ``spark/sources/`` that reads it, and a line in ``FORMATS``:
see docs/extending.md.
"""

from __future__ import annotations

from typing import Final, Literal

from penstock.errors import SourceError, nearest
from penstock.model.schema import Column, Stream, Table
from penstock.sources.csv import CSV
from penstock.sources.description import SourceFormat
from penstock.sources.json import JSON
from penstock.sources.parquet import PARQUET
from penstock.sources.postgres import POSTGRES
from penstock.sources.trades import TRADES

FORMATS: Final[dict[str, SourceFormat]] = {one.name: one for one in (PARQUET, CSV, JSON, POSTGRES, TRADES)}


def formats_for(kind: str) -> tuple[str, ...]:
    """List the formats that a stream or a table may have."""
    return tuple(name for name, one in FORMATS.items() if (one.streams if kind == "stream" else one.tables))


def format_of(item: Stream | Table) -> SourceFormat:
    """Return the format of a stream or table, or say which ones it could have."""
    kind: Literal["stream", "table"] = "stream" if isinstance(item, Stream) else "table"
    known = formats_for(kind)
    if item.format not in known:
        is_known = item.format in FORMATS
        what = f"a {kind} cannot be {item.format}" if is_known else f'unknown format "{item.format}"'
        near = None if is_known else nearest(item.format or "", known)
        hint = f"Formats: {', '.join(known)}."
        raise SourceError(f'"{item.name}": {what}', hint=hint if near is None else f"{near} {hint}")
    return FORMATS[item.format]


def check_source(item: Stream | Table) -> SourceFormat:
    """Refuse an unknown format, wrong options and missing ones; return the format."""
    described = format_of(item)
    described.check(item.name, item.options)
    for need in described.needs:
        if not item.options.get(need):
            raise SourceError(f'"{item.name}" has no {need}', hint=f"Add OPTIONS ({need} = '…').")
    return described


def found_columns(item: Stream | Table) -> tuple[Column, ...]:
    """Find the columns of a stream or table that declares none, without Spark, or say why that cannot be."""
    return format_of(item).columns(item)
