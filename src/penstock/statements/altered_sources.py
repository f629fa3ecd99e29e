"""Works out what a stream or table is after ALTER STREAM or ALTER TABLE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from penstock.catalog import Catalog
from penstock.errors import CatalogError, UnknownColumn, nearest
from penstock.language.statements import AddColumns, AlterSource, DropColumns, SetLateness, SetOptions
from penstock.language.stream_options import OWN_OPTIONS, read_own
from penstock.model.schema import Column, Stream, Table


def altered_source(statement: AlterSource, catalog: Catalog) -> Stream | Table:
    """Return the stream or table that a statement makes of the one there is."""
    known: Stream | Table
    known = catalog.known_stream(statement.name) if statement.kind == "stream" else catalog.known_table(statement.name)
    match statement.change:
        case AddColumns(columns=columns):
            return replace(known, columns=_with(known, columns))
        case DropColumns(names=names):
            return replace(known, columns=_without(known, names))
        case SetOptions(options=options):
            return _with_options(known, options)
        case SetLateness(time=time, lateness_us=lateness_us):
            assert isinstance(known, Stream)
            if time.lower() != known.time.lower():
                what = f'the event time of stream "{known.name}" is {known.time}: that cannot change'
                raise CatalogError(what, hint=f"Write WATERMARK FOR {known.time} AS {known.time} - INTERVAL 5 SECONDS.")
            return replace(known, lateness_us=lateness_us)
    assert_never(statement.change)


def _with(known: Stream | Table, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Add columns behind those there are."""
    names = {column.name.lower() for column in known.columns}
    for column in columns:
        if column.name.lower() in names:
            raise CatalogError(f'{_kind(known)} "{known.name}" has a column "{column.name}" already')
    return (*known.columns, *columns)


def _without(known: Stream | Table, names: Sequence[str]) -> tuple[Column, ...]:
    """Leave out columns."""
    there = {column.name.lower(): column for column in known.columns}
    for name in names:
        if name.lower() not in there:
            hint = nearest(name, [column.name for column in known.columns])
            raise UnknownColumn(f'{_kind(known)} "{known.name}" has no column "{name}"', hint=hint)
    gone = {name.lower() for name in names}
    return tuple(column for column in known.columns if column.name.lower() not in gone)


def _with_options(known: Stream | Table, options: Sequence[tuple[str, str]]) -> Stream | Table:
    """Set options of the source, or of the stream itself; the others stay."""
    spelled = {name.lower(): name for name in known.options}
    for name, value in options:
        if isinstance(known, Stream) and name.lower() in OWN_OPTIONS:
            known = replace(known, **read_own(name.lower(), value))
        else:
            known = replace(known, options={**known.options, spelled.get(name.lower(), name): value})
    return known


def _kind(known: Stream | Table) -> str:
    """Name what a definition is of."""
    return "stream" if isinstance(known, Stream) else "table"
