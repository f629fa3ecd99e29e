"""Proposes a project for the files of a folder, and says what it guessed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa

from penstock.errors import SourceError
from penstock.evaluate.expressions.ddl import type_name
from penstock.language.grammar.literals import quote
from penstock.model.counts import counted
from penstock.model.duration import format_duration
from penstock.project.guessed_data import DataSet, find_data
from penstock.project.guessed_queries import ProposedQuery, propose_queries, range_of
from penstock.project.guessed_time import EPOCH, GuessedTime, guess_time

_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})  # of YAML
_GUESSED_TYPE: Final = "guessed; a field that is none is NULL"
_MIXED_TYPE: Final = "guessed: files differ about its type"
AHEAD: Final = timedelta(minutes=10)  # of the clock: rows further on are invalid


@dataclass(frozen=True, slots=True)
class Proposal:
    """The files of a project by their paths, and what was guessed for them."""

    files: dict[str, str]
    guesses: tuple[str, ...]


def propose_project(name: str, folder: Path, data: Path) -> Proposal:
    """Look at the files of a folder, and propose streams, tables, five queries and a test."""
    sets = find_data(data)
    times = {one.name: time for one in sets if (time := guess_time(one)) is not None}
    if not times:
        looked = ", ".join(f"{one.name} ({', '.join(one.rows.column_names[:8])})" for one in sets)
        hint = "A stream needs a column of event time: times, dates, or numbers since 1970 whose name says so."
        raise SourceError(f"no column in {data} looks like a time", detail=looked, hint=hint)
    largest = max((one for one in sets if one.name in times), key=lambda one: _bytes(one.files))
    queries = propose_queries(largest, times[largest.name])
    files = {
        "penstock.yml": _settings(name, folder, sets, times),
        **{f"queries/{query.name}.sql": f"-- {query.about}\n{query.text}\n" for query in queries},
        f"tests/{queries[0].name}.yml": _test(largest, times[largest.name], queries[0]),
        ".gitignore": "answers/\nstate/\n",
    }
    guesses = [said for one in sets for said in _guesses(one, times.get(one.name))]
    return Proposal(files, (*guesses, f"the queries are about {largest.name}, which has the most bytes"))


def _bytes(files: Sequence[Path]) -> int:
    """Add up the sizes of files."""
    return sum(file.stat().st_size for file in files)


# penstock.yml.


def _settings(name: str, folder: Path, sets: Sequence[DataSet], times: dict[str, GuessedTime]) -> str:
    """Write penstock.yml."""
    lines = ["# Proposed by penstock init --from; what was guessed stands beside it. penstock check finds mistakes."]
    lines += [f"name: {_text(name)}", "", "streams:"]
    for one in sets:
        if one.name in times:
            lines += _stream(one, folder, times[one.name])
    tables = [one for one in sets if one.name not in times]
    lines += ["", "tables:"] if tables else []
    for one in tables:
        lines += _source(one, folder, None)
    lines += ["", "# Where answers go.", "sinks:", "  - jsonl: answers", ""]
    lines += ["# With a state folder a run goes on where the last one stopped.", "# state: state", ""]
    return "\n".join(lines)


def _stream(data: DataSet, folder: Path, time: GuessedTime) -> list[str]:
    """Write a stream."""
    seen = f"the first rows of {counted(min(len(data.files), 20), 'file', 'files')} come within it"
    return [
        *_source(data, folder, time),
        f"    time: {_text(time.name)}  # guessed: {time.first:%Y-%m-%d %H:%M:%S} to {time.last:%Y-%m-%d %H:%M:%S}",
        f"    lateness: {format_duration(time.lateness_us)}  # guessed: {seen}",
    ]


def _source(data: DataSet, folder: Path, time: GuessedTime | None) -> list[str]:
    """Write format, path, options and columns; Parquet tells its own unless one is computed."""
    lines = [f"  {data.name}:", f"    format: {data.format}", f"    path: {_text(_path(data.path, folder))}"]
    if data.options:
        lines.append(f"    options: {{{', '.join(f'{key}: {_text(value)}' for key, value in data.options.items())}}}")
    computed = time is not None and time.expression is not None
    if data.format == "parquet" and not computed:
        return lines
    lines.append("    columns:")
    for field in data.rows.schema:
        type_ = _type(field.type)
        guessed = "" if data.format == "parquet" or type_ == "STRING" else f"  # {_GUESSED_TYPE}"
        guessed = f"  # {_MIXED_TYPE}" if field.name in data.mixed else guessed
        lines.append(f"      {_text(field.name)}: {_text(type_)}{guessed}")
    for partition in data.partitions:
        lines.append(f"      {_text(partition)}: STRING")
    if time is not None and time.expression is not None:
        lines.append(f"      {time.name}: {{type: TIMESTAMP, as: {_text(time.expression)}}}")
    return lines


def _path(path: Path, folder: Path) -> str:
    """Write a path relative to the project where it is inside, otherwise absolute."""
    whole, home = path.resolve(), folder.resolve()
    return whole.relative_to(home).as_posix() if whole.is_relative_to(home) else whole.as_posix()


def _type(type_: pa.DataType) -> str:
    """Spell the type in which Spark should read a column."""
    if pa.types.is_null(type_):
        return "STRING"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP"
    if pa.types.is_struct(type_):
        return f"STRUCT<{', '.join(f'{quote(field.name)}: {_type(field.type)}' for field in type_)}>"
    if pa.types.is_list(type_):
        return f"ARRAY<{_type(type_.value_type)}>"
    plain = type_name(type_).upper()
    known = pa.types.is_primitive(type_) or pa.types.is_decimal(type_) or pa.types.is_string(type_)
    return plain if known and not pa.types.is_time(type_) else "STRING"


def _text(text: str) -> str:
    """Write text in YAML, in quotes where it needs them."""
    plain = text.replace("_", "a").replace("/", "a").replace("-", "a").isalnum() and not text[0].isdigit()
    return text if plain and text.lower() not in _WORDS else json.dumps(text, ensure_ascii=False)


# The test, and what was guessed.


def _test(data: DataSet, time: GuessedTime, query: ProposedQuery) -> str:
    """Write a test of the query that counts rows: two in one window, one in the next."""
    length = timedelta(microseconds=range_of(time))
    base = EPOCH + (time.first - EPOCH) // length * length
    rows = [f"    - {{{json.dumps(time.column)}: {time.written(at)}}}" for at in (base, base, base + length)]
    ends = [f"{end:%Y-%m-%d %H:%M:%S}" for end in (base + length, base + 2 * length)]
    expected = [f"  - {{window_end: {end}, n: {n}}}" for end, n in zip(ends, (2, 1), strict=True)]
    head = ["# Two rows in one window, one in the next.", f"query: {query.name}", "rows:", f"  {data.name}:"]
    return "\n".join([*head, *rows, "expect:", *expected, ""])


def _guesses(data: DataSet, time: GuessedTime | None) -> list[str]:
    """Say what was guessed of a data set."""
    files = counted(len(data.files), f"{data.format} file", f"{data.format} files")
    if time is None:
        return [f"{data.name}: a table of {files}; no column looks like a time", *_mixed(data)]
    how = f"{time.column}" if time.expression is None else f"{time.expression}, called {time.name}"
    said = [
        f"{data.name}: a stream of {files}; event time is {how}",
        f"{data.name}: lateness {format_duration(time.lateness_us)}, as its rows lie now; live rows may come later",
    ]
    said += _mixed(data)
    if data.format == "csv" and "header" not in data.options:
        said.append(f"{data.name}: its first line names no columns, so they are numbered")
    if time.last > datetime.now(UTC) + AHEAD:
        said.append(f"{data.name}: rows after now are invalid; the last one is of {time.last:%Y-%m-%d %H:%M:%S}")
    return said


def _mixed(data: DataSet) -> list[str]:
    """Say which columns are text because files differ."""
    return [f"{data.name}: {column} is text, as files differ about its type" for column in data.mixed]
