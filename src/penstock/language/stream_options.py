"""Reads, checks and writes a stream's own options, such as idle, max_ahead, retain_rows and dedup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from penstock.errors import InvalidWindow, LanguageError, PenstockError, UnknownColumn, WrongType, nearest
from penstock.language.binding.query_text import write_name
from penstock.language.duration import parse_duration
from penstock.language.grammar.limits import LONGEST_WINDOW_US, MAX_KEYS
from penstock.model.duration import MINUTE, format_duration
from penstock.model.schema import Column, Stream

DEFAULT_AHEAD_US: Final = 10 * MINUTE
LENGTHS: Final = ("max_ahead", "idle", "retain_rows")
OWN_OPTIONS: Final = (*LENGTHS, "dedup")  # of a stream itself; all others are its source's
_NAME: Final = re.compile(r"\s*+(?:`(?P<quoted>(?:[^`]|``)++)`\s*+|(?P<bare>[^`,]++))(?P<comma>,|\Z)")
_INCOMPARABLE: Final = re.compile(r"\b(map<|variant\b)", re.IGNORECASE)
_SHOWN: Final = 40


def read_own(name: str, text: str) -> dict[str, Any]:
    """Read one option as the field of the stream that it sets."""
    return {"dedup": read_names(text)} if name == "dedup" else {f"{name}_us": read_length(name, text)}


def read_length(name: str, text: str) -> int:
    """Read a duration; only max_ahead may be nothing."""
    length_us = parse_duration(text)
    if length_us == 0 and name != "max_ahead":
        raise InvalidWindow(f"{name} must be longer than zero", hint="Leave the option out to switch it off.")
    if length_us > LONGEST_WINDOW_US and name != "max_ahead":
        raise InvalidWindow(f"{name} must be at most 100 years")
    return length_us


def read_names(text: str) -> tuple[str, ...]:
    """Read columns separated by commas, in backquotes where a name holds one."""
    names: list[str] = []
    at, more = 0, True
    while more:
        found = _NAME.match(text, at)
        if found is None:
            shown = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
            raise LanguageError(f'dedup takes columns, found "{shown}"', hint="Write for example dedup = 'id, venue'.")
        names.append((found["bare"] or "").rstrip() or found["quoted"].replace("``", "`"))
        at, more = found.end(), found["comma"] == ","
    return tuple(names)


def check_dedup(names: Sequence[str], columns: Sequence[Column], stream: str) -> tuple[str, ...]:
    """Return key columns as the stream spells them, or say which is none."""
    known = {column.name.lower(): column for column in columns}
    found: list[str] = []
    for name in names:
        column = known.get(name.lower())
        if column is None:
            raise _unknown(name, columns, stream)
        if column.name in found:
            raise LanguageError(f'column "{column.name}" is in dedup twice')
        if _INCOMPARABLE.search(column.type):
            what = f'column "{column.name}" of dedup is {column.type}, whose values cannot be compared'
            raise WrongType(what, hint="Name other columns.")
        found.append(column.name)
    if len(found) > MAX_KEYS:
        raise LanguageError(f"more than {MAX_KEYS} columns in dedup")
    return tuple(found)


def _unknown(name: str, columns: Sequence[Column], stream: str) -> PenstockError:
    """Build the error for a key column that is not there."""
    listed = [column.name for column in columns]
    hint = nearest(name, listed)
    detail = None if hint else "existing columns: " + ", ".join(listed[:20]) + ", …" * (len(listed) > 20)
    return UnknownColumn(f'stream "{stream}" has no column "{name}" for dedup', detail=detail, hint=hint)


def with_checked_dedup(stream: Stream) -> Stream:
    """Return the stream with its key columns checked, once its columns are known."""
    return replace(stream, dedup=check_dedup(stream.dedup, stream.columns, stream.name)) if stream.dedup else stream


def write_own(stream: Stream) -> dict[str, str]:
    """Write the options that are not the default."""
    options: dict[str, str] = {}
    if stream.max_ahead_us != DEFAULT_AHEAD_US:
        options["max_ahead"] = format_duration(stream.max_ahead_us)
    if stream.idle_us:
        options["idle"] = format_duration(stream.idle_us)
    if stream.dedup:
        options["dedup"] = ", ".join(write_name(name) for name in stream.dedup)
    if stream.retain_rows_us:
        options["retain_rows"] = format_duration(stream.retain_rows_us)
    return options


def computed_time(column: Column) -> str:
    """Write the expression that most likely makes event time of a column that is no timestamp."""
    name = write_name(column.name)
    written = {
        "bigint": f"timestamp_millis({name})",
        "int": f"timestamp_seconds({name})",
        "date": f"CAST({name} AS TIMESTAMP)",
    }
    return written.get(column.type.lower(), f"to_timestamp({name})")


def computed_name(names: Iterable[str]) -> str:
    """Choose the name of a computed column beside others; event_time is one that answers have of themselves."""
    taken = {name.lower() for name in names}
    return next((name for name in ("ts", "time") if name not in taken), "row_time")
