"""Tells what of a stream or table may change while its state goes on, and who is in the way of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from penstock.errors import CatalogError
from penstock.evaluate.typed import Definition
from penstock.model.derived import FED
from penstock.model.duration import format_duration
from penstock.model.schema import Column, Stream, Table

Readers = Mapping[str, frozenset[str]]  # queries, and streams that join: the columns that each reads
EARLIEST: Final = -62_135_596_800_000_000  # the first instant of year 1
_LISTED: Final = 10  # of those that are in the way


def check_stream(known: Stream, new: Stream, readers: Readers) -> None:
    """Refuse what a stream cannot become without a state folder of its own."""
    if known.format in FED or new.format in FED:
        hint = "Drop it, with those who read it, and create it anew."
        raise CatalogError(f'stream "{known.name}" is made of another stream, and cannot be altered', hint=hint)
    _same_source("stream", known, new)
    if known.time != new.time:
        raise _stays(known.name, f"its event time is {known.time}", "slices and windows are of that time")
    if known.dedup != new.dedup:
        told = f"dedup is {', '.join(known.dedup)}" if known.dedup else "repeated rows were counted so far"
        raise _stays(known.name, told, "a repeated row is known by what was kept of earlier ones, by the same columns")
    _check_types(known, new)
    _check_places(known, new)
    own = {"the event time of the stream": frozenset([known.time]), "dedup": frozenset(known.dedup)}
    _check_columns("stream", known, new, {**{n: c for n, c in own.items() if c}, **readers})


def check_table(known: Table, new: Table, readers: Readers) -> None:
    """Refuse what a table cannot become while queries read it."""
    _same_source("table", known, new, format_may_change=True)
    _check_columns("table", known, new, readers)


def with_since(known: Stream, new: Stream, since_us: int | None) -> Stream:
    """Note from which event time on the columns are there that a stream gains; all others are there as before."""
    before = {column.name: column for column in known.columns}
    kept = {c.name for c in new.columns if before.get(c.name) == c}
    since = {name: us for name, us in known.since.items() if name in kept}
    came_us = EARLIEST if since_us is None else since_us
    since |= {column.name: came_us for column in new.columns if column.name not in kept}
    names = {column.name.lower() for column in new.columns}
    earlier = {**known.former, **{column.name: column.type for column in known.columns}}
    former = {name: kind for name, kind in earlier.items() if name.lower() not in names}
    moved = known.moved or (since_us is not None and known.options.get("path") != new.options.get("path"))
    return replace(new, since=since, former=former, moved=moved)


def differences(known: Stream | Table, new: Stream | Table) -> list[str]:
    """Say what differs, for reports: a few words each."""
    before, after = ({c.name: c for c in item.columns} for item in (known, new))
    found = [f"format is {new.format}, was {known.format}"] if known.format != new.format else []
    found += [f"{name} is new" for name in after if name not in before]
    found += [f"{name} is gone" for name in before if name not in after]
    found += [f"{name} is {_told(c)}" for name, c in after.items() if name in before and before[name] != c]
    keys = sorted({*known.options, *new.options})
    texts = ((k, known.options.get(k, "not set"), new.options.get(k, "not set")) for k in keys)
    found += [f"{name} is {after}, was {before}" for name, before, after in texts if before != after]
    if isinstance(known, Stream) and isinstance(new, Stream):
        lengths = ("lateness", "max_ahead", "idle", "retain_rows")
        us = ((name, getattr(known, f"{name}_us"), getattr(new, f"{name}_us")) for name in lengths)
        found += [f"{name} is {_length(name, now)}, was {_length(name, was)}" for name, was, now in us if was != now]
    return found


def _length(name: str, us: int | None) -> str:
    """Write a length that a stream may be without."""
    return "none" if us is None or (name == "idle" and not us) else format_duration(us)


def _same_source(kind: str, known: Stream | Table, new: Stream | Table, *, format_may_change: bool = False) -> None:
    """Refuse another format, and a DataFrame in place of a source or the other way round."""
    if known.format == new.format or (format_may_change and known.format is not None and new.format is not None):
        return
    was = "a DataFrame of a program" if known.format is None else f"of format {known.format}"
    what = f'{kind} "{known.name}" is {was}, and cannot become {new.format or "a DataFrame"}'
    raise CatalogError(what, hint=f"Create another {kind}, and let its queries read that one.")


def _stays(name: str, what: str, why: str) -> CatalogError:
    """Word that something about a stream stays as it is."""
    hint = "Create another stream over the same source, and let queries read that one."
    return CatalogError(f'of stream "{name}", {what}: that cannot change', detail=why, hint=hint)


def _check_columns(kind: str, known: Stream | Table, new: Stream | Table, readers: Readers) -> None:
    """Refuse to take away, or to give another type, what somebody reads."""
    after = {column.name: column for column in new.columns}
    for column in known.columns:
        if after.get(column.name) == column:
            continue
        in_the_way = [name for name, columns in readers.items() if column.name in columns]
        if in_the_way:
            raise _read(kind, known.name, column, after.get(column.name), in_the_way)


def _check_types(known: Stream, new: Stream) -> None:
    """Refuse another type of a column that is there or was: rows that are stored have it as it was."""
    earlier = {name.lower(): kind for name, kind in known.former.items()}
    earlier |= {column.name.lower(): column.type for column in known.columns}
    for column in new.columns:
        was = earlier.get(column.name.lower(), column.type)
        if was != column.type:
            what = f'column "{column.name}" of stream "{known.name}" is {was}, and cannot become {column.type}'
            detail = "rows and partials that are stored have it as it was"
            raise CatalogError(what, detail=detail, hint=_in_another(column))


def _in_another(column: Column) -> str:
    """Say how queries come to read a column as another type."""
    if column.expression is not None:
        return "Add a column of another name."
    told = f"Declare a stream of another name over the same source, with {column.name} as {column.type}"
    return f"{told}, and let queries read that: each window is answered once. Drop this one when nobody reads it."


def _check_places(known: Stream, new: Stream) -> None:
    """Refuse another order of the columns of CSV files without a header, whose values are known by position alone."""
    if new.format != "csv" or any(k.lower() == "header" and v.lower() == "true" for k, v in new.options.items()):
        return
    before, after = ([c.name for c in item.columns if c.expression is None] for item in (known, new))
    place = next((n for n, (was, now) in enumerate(zip(before, after, strict=False)) if was != now), None)
    if place is None:
        return
    what = f'column {place + 1} of stream "{known.name}" is "{before[place]}", and cannot become "{after[place]}"'
    detail = "CSV files without a header are read by position: all values from there on would be of other columns"
    raise CatalogError(what, detail=detail, hint="Declare new columns last, or create another stream for such files.")


def _read(kind: str, name: str, column: Column, wanted: Column | None, readers: Sequence[str]) -> CatalogError:
    """Word that a column is read."""
    becomes = "go" if wanted is None else f"become {_told(wanted)}"
    what = f'column "{column.name}" of {kind} "{name}" is {_told(column)}, and cannot {becomes} while it is read'
    more = f" and {len(readers) - _LISTED} more" if len(readers) > _LISTED else ""
    hint = "Drop or alter what reads it first, or add a column of another name."
    if wanted is not None and wanted.expression is None:
        hint = f"Declare a {kind} of another name, with {column.name} as {wanted.type}, and let queries read that."
    return CatalogError(what, detail=f"read by {', '.join(readers[:_LISTED])}{more}", hint=hint)


def _told(column: Column) -> str:
    """Write a column's type, and its expression."""
    return column.type if column.expression is None else f"{column.type} as {column.expression}"


def columns_of_table(definition: Definition, table: Table) -> frozenset[str]:
    """List the columns of a table that a query reads: in expressions they are named after the join."""
    query = definition.query
    said = repr(query)
    mine = [join for join in query.joins if join.table == table.name]
    keys = " ".join(key for join in mine for key in join.table_keys)
    return frozenset(
        column.name
        for column in table.columns
        if f"`{column.name}`" in keys or any(f"`{join.id}.{column.name}`" in said for join in mine)
    )
