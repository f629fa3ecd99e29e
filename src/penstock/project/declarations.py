"""Reads the streams and tables of penstock.yml, and makes their paths absolute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from yaml.nodes import MappingNode, Node, SequenceNode

from penstock.errors import PenstockError, SourceError, nearest
from penstock.language.duration import parse_duration
from penstock.language.grammar.literals import is_plain_word, quote
from penstock.language.grammar.parse import parse_statement
from penstock.language.statements import CreateStream
from penstock.language.stream_options import (
    LENGTHS,
    OWN_OPTIONS,
    check_dedup,
    computed_name,
    computed_time,
    read_length,
    read_names,
)
from penstock.model.schema import Column, Stream, Table
from penstock.project.document import Entries, Place, YamlFile, options_of, place_of
from penstock.project.state_columns import StateColumns
from penstock.sources.description import UNKNOWN_TYPE, SourceFormat
from penstock.sources.registry import FORMATS, formats_for, found_columns

STREAM_SETTINGS: Final = ("format", "path", "options", "columns", "time", "lateness", *OWN_OPTIONS)
TABLE_SETTINGS: Final = ("format", "path", "options", "columns")
COLUMN_SETTINGS: Final = ("type", "as")
TIME_TYPES: Final = ("timestamp", "timestamp_ntz", "timestamp_ltz")
TIME_STAND_IN: Final = "__time"
NAME_HINT: Final = "Use letters, digits and underscores, and begin with a letter or underscore."


@dataclass(frozen=True, slots=True)
class Declared:
    """A stream or table; where columns were not declared, they are the names that files tell."""

    item: Stream | Table
    with_columns: bool
    place: Place
    whole: bool = True  # all its columns could be read
    columns: Mapping[str, Place] = field(default_factory=dict)  # where each is declared


def read_declarations(reading: YamlFile, node: Node, kind: str, folder: Path, before: StateColumns) -> list[Declared]:
    """Read all streams or all tables; ``before`` has columns that files may tell no more."""
    found = []
    for name, (key, value) in reading.entries(node, f"{kind}s").items():
        if not is_plain_word(name):
            reading.complain(f'"{name}" is not a name for a {kind}', key, hint=NAME_HINT)
        elif (declared := _read(reading, name, key, value, kind, folder, before)) is not None:
            found.append(declared)
    return found


def names_in(node: Node) -> frozenset[str]:
    """List the names under streams or tables, in lower case, with mistakes or without."""
    return frozenset(key.value.lower() for key, _ in node.value) if isinstance(node, MappingNode) else frozenset()


def _read(
    reading: YamlFile, name: str, key: Node, node: Node, kind: str, folder: Path, before: StateColumns
) -> Declared | None:
    """Read one stream or table; None if a mistake leaves nothing to go on with."""
    what, mistakes = f'{kind} "{name}"', len(reading.problems)
    entries = reading.entries(node, what, STREAM_SETTINGS if kind == "stream" else TABLE_SETTINGS)
    if not entries and len(reading.problems) > mistakes:
        return None
    declared = _columns(reading, entries["columns"][1], what, kind) if "columns" in entries else None
    whole = len(reading.problems) == mistakes
    item: Stream | Table = Table(name, declared or (), *_source(reading, what, key, entries, kind, folder))
    if kind == "stream":
        item = _stream(reading, what, key, entries, item)
    if declared is None and len(reading.problems) == mistakes:
        item = _with_found(reading, item, key, before.names_of(kind, name))
    if isinstance(item, Stream):
        item = _check_dedup(reading, entries, _check_time(reading, entries, item))
    places = _column_places(entries["columns"][1]) if "columns" in entries else {}
    return Declared(item, declared is not None, place_of(key), whole, places) if item.columns else None


# Where rows come from.


def _source(
    reading: YamlFile, what: str, key: Node, entries: Entries, kind: str, folder: Path
) -> tuple[str | None, dict[str, str]]:
    """Read format, path and options."""
    formats, format_ = formats_for(kind), None
    if "format" in entries:
        format_ = reading.choice(entries["format"][1], f"the format of {what}", formats)
    else:
        reading.complain(f"{what} has no format", key, hint=f"Add format: {', '.join(formats)}.")
    options = dict(options_of(reading, entries["options"][1], f"options of {what}")) if "options" in entries else {}
    if "path" in entries:
        if "path" in options:
            reading.complain(f"{what} has two paths", entries["path"][0])
        options["path"] = reading.words(entries["path"][1], f"the path of {what}") or "."
    if format_ is None:
        return None, options
    described = FORMATS[format_]
    if "path" in options and "path" not in described.options:
        place = entries.get("path", entries["format"])[0]
        reading.complain(f"{what} is {described.origin} and has no path", place)
        return format_, options
    options |= {name: absolute(options[name], folder) for name in described.paths if name in options}
    _check_options(reading, what, key, entries, described, options)
    return format_, options


def _check_options(
    reading: YamlFile, what: str, key: Node, entries: Entries, described: SourceFormat, options: Mapping[str, str]
) -> None:
    """Note options that a format needs, and those that it does not have."""
    for need in described.needs:
        if need not in options:
            where = "Add path: and a folder or file, relative to penstock.yml."
            hint = where if need == "path" else f"Add {need} under options."
            reading.complain(f"{what} has no {need}", key, hint=hint)
    try:
        described.check(what, options)
    except SourceError as error:
        place = entries["options"][0] if "options" in entries else key
        reading.complain(error.what, place, detail=error.detail, hint=error.hint)


def absolute(path: str, folder: Path) -> str:
    """Make a path independent of where the command was started; addresses stay as they are."""
    return path if "://" in path else str(folder.absolute() / path)


# Event time.


def _stream(reading: YamlFile, what: str, key: Node, entries: Entries, item: Stream | Table) -> Stream:
    """Add event time to what a stream has in common with a table."""
    time = reading.words(entries["time"][1], f"the time of {what}") if "time" in entries else None
    if "time" not in entries:
        reading.complain(f"{what} has no time", key, hint="Add time: and the name of its column of event time.")
    lengths = {name: _length(reading, entries, name, what) for name in ("lateness", *LENGTHS) if name in entries}
    known: dict[str, Any] = {f"{name}_us": us for name, us in lengths.items() if us is not None}
    keys = _names(reading, entries["dedup"][1], f"dedup of {what}") if "dedup" in entries else ()
    return Stream(item.name, item.columns, time or "", format=item.format, options=item.options, dedup=keys, **known)


def _length(reading: YamlFile, entries: Entries, name: str, what: str) -> int | None:
    """Read a duration."""
    node = entries[name][1]
    text = reading.words(node, f"{name} of {what}")
    if text is None:
        return None
    try:
        return parse_duration(text) if name == "lateness" else read_length(name, text)
    except PenstockError as error:
        reading.complain(error.what, node, detail=error.detail, hint=error.hint or "Write for example 5 s or 10 min.")
        return None


def _names(reading: YamlFile, node: Node, what: str) -> tuple[str, ...]:
    """Read columns: a list, or text with commas."""
    if isinstance(node, SequenceNode):
        return tuple(name for one in node.value if (name := reading.words(one, f"a column of {what}")) is not None)
    text = reading.words(node, what)
    try:
        return () if text is None else read_names(text)
    except PenstockError as error:
        reading.complain(error.what, node, detail=error.detail, hint="Write for example [id, venue].")
        return ()


def _check_dedup(reading: YamlFile, entries: Entries, item: Stream) -> Stream:
    """Make sure that the key columns are there."""
    try:
        return replace(item, dedup=check_dedup(item.dedup, item.columns, item.name)) if item.columns else item
    except PenstockError as error:
        reading.complain(error.what, entries["dedup"][1], detail=error.detail, hint=error.hint)
        return replace(item, dedup=())


def _check_time(reading: YamlFile, entries: Entries, item: Stream) -> Stream:
    """Make sure that the column of event time is there, and is a timestamp if types are known."""
    if not item.time or not item.columns or "time" not in entries:
        return item
    node, names = entries["time"][1], {c.name.lower(): c for c in item.columns}
    column = names.get(item.time.lower())
    if column is None:
        listed = [c.name for c in item.columns]
        reading.complain(
            f'stream "{item.name}" has no column "{item.time}" to take the time from',
            node,
            detail=f"existing columns: {', '.join(listed[:20])}",
            hint=nearest(item.time, listed),
        )
        return item
    if column.type != UNKNOWN_TYPE and column.type.lower() not in TIME_TYPES:
        computed = f"{computed_name(names)}: {{type: TIMESTAMP, as: {computed_time(column)}}}"
        reading.complain(
            f'time column "{column.name}" of stream "{item.name}" is {column.type}, not a timestamp',
            node,
            hint=f"Compute one, {computed}, and take time from it.",
        )
    return replace(item, time=column.name)


def _with_found(reading: YamlFile, item: Stream | Table, key: Node, before: tuple[Column, ...]) -> Stream | Table:
    """Take the names of columns that files tell, behind those that are known from before."""
    names = {column.name.lower() for column in before}
    try:
        return replace(item, columns=(*before, *(c for c in found_columns(item) if c.name.lower() not in names)))
    except SourceError as error:
        if before:
            return replace(item, columns=before)
        reading.complain(error.what, key, detail=error.detail, hint=error.hint)
        return item


# Columns.


def _columns(reading: YamlFile, node: Node, what: str, kind: str) -> tuple[Column, ...]:
    """Read columns: a mapping of names to types, or a list of ``name TYPE``."""
    if isinstance(node, MappingNode):
        entries = reading.entries(node, f"columns of {what}")
        drafts = [(value, *_draft(reading, name, value, what, kind)) for name, (_, value) in entries.items()]
    else:
        texts = [(one, reading.words(one, f"a column of {what}")) for one in reading.items(node, f"columns of {what}")]
        drafts = [(one, text, " generated " in (text or "").lower()) for one, text in texts]
    plain = {id(at): _column(reading, at, text) for at, text, computed in drafts if text is not None and not computed}
    broken = None in plain.values() or any(text is None for _, text, _ in drafts)
    others = [f"{quote(c.name)} {c.type}" for c in plain.values() if c is not None]
    found: dict[str, Column] = {}
    for at, text, computed in drafts:
        column = plain.get(id(at))
        if computed and text is not None and not broken:
            column = _column(reading, at, text, others)
        if column is not None and column.name.lower() in found:
            reading.complain(f'column "{column.name}" is declared twice', at)
        elif column is not None:
            found[column.name.lower()] = column
    return tuple(found.values())


def _column_places(node: Node) -> dict[str, Place]:
    """Find where each column is declared, by its name in lower case."""
    if isinstance(node, MappingNode):
        return {str(key.value).lower(): place_of(value) for key, value in node.value}
    texts = [(str(one.value).split() or [""], one) for one in node.value] if isinstance(node, SequenceNode) else []
    return {words[0].strip("`").lower(): place_of(one) for words, one in texts}


def _draft(reading: YamlFile, name: str, node: Node, what: str, kind: str) -> tuple[str | None, bool]:
    """Write one entry of a mapping as CREATE STREAM writes a column; tell whether it is computed."""
    if not isinstance(node, MappingNode):
        type_ = reading.words(node, f'the type of column "{name}"')
        return (None if type_ is None else f"{quote(name)} {type_}"), False
    entries = reading.entries(node, f'column "{name}" of {what}', COLUMN_SETTINGS)
    if kind == "table":
        reading.complain("computed columns of tables are not available", node)
        return None, False
    parts = [reading.words(entries[k][1], f'{k} of column "{name}"') for k in COLUMN_SETTINGS if k in entries]
    if len(parts) < len(COLUMN_SETTINGS) or None in parts:
        hint = "Write {type: TIMESTAMP, as: timestamp_millis(ms)}."
        reading.complain(f'column "{name}" of {what} needs both type and as', node, hint=hint)
        return None, False
    return f"{quote(name)} {parts[0]} GENERATED ALWAYS AS ({parts[1]})", True


def _column(reading: YamlFile, node: Node, text: str, others: Sequence[str] = ()) -> Column | None:
    """Read a column with the grammar of CREATE STREAM; it must be one column and nothing else."""
    columns = ", ".join([f"{TIME_STAND_IN} TIMESTAMP", *others, text])
    statement = f"CREATE STREAM s ({columns}) USING csv WATERMARK FOR {TIME_STAND_IN}"
    try:
        parsed = parse_statement(statement)
    except PenstockError as error:
        reading.complain(f"this is not a column: {error.what}", node, detail=error.detail, hint=error.hint)
        return None
    stream = parsed.stream if isinstance(parsed, CreateStream) else None
    plain = None if stream is None else Stream("s", stream.columns, TIME_STAND_IN, format="csv")
    if stream is None or stream != plain or len(stream.columns) != len(others) + 2:
        reading.complain("expected one column", node, hint="Write a name and a type, such as price DOUBLE.")
        return None
    return stream.columns[-1]
