"""Finds the columns of a stream made of a query's answers, or refuses the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.catalog import Catalog
from penstock.errors import LanguageError, Unsupported
from penstock.evaluate.expressions.ddl import type_name
from penstock.evaluate.typed import Definition, TypedQuery
from penstock.language.binding.query_text import write_name
from penstock.language.grammar.literals import write_string
from penstock.language.options import says_changes
from penstock.model.derived import TIME, answers_stream, rows_stream
from penstock.model.query import Query
from penstock.model.schema import Column, Stream
from penstock.model.window import RowsWindow, SessionWindow
from penstock.store.commits import Paused

REFUSED: Final = {  # options of a query whose answers are a stream
    "late": "answers that are revised cannot be a stream",
    "lifetime": "a stream has no lifetime",
}


def stream_made_by(query: Query, columns: Sequence[Column], catalog: Catalog) -> Stream:
    """Describe the stream of a query's name that its answers are: windows, or the rows that it takes."""
    name = query.name
    if not query.is_continuous:
        return answers_stream(name, query.stream, columns, query.text)
    source = catalog.known_stream(query.stream)
    if source.time != TIME and any(column.name == TIME for column in columns):
        raise _named_as_time(query, TIME)
    return rows_stream(name, source, columns, query.text)


def columns_of_answers(typed: TypedQuery) -> tuple[Column, ...]:
    """Describe a query's outputs as columns of a stream."""
    refuse_as_stream(typed.query)
    named = zip(typed.query.outputs, typed.output_types, strict=True)
    return tuple(Column(output.name, type_name(found)) for output, found in named)


def refuse_as_stream(query: Query) -> None:
    """Refuse a query whose answers cannot be a stream."""
    text = query.text
    for name, _ in query.options:
        if name in REFUSED:
            hint = f"Leave the option {name} out."
            raise Unsupported(REFUSED[name], text=text, place=(text.rfind(" WITH (") + 1, len(text)), hint=hint)
    if isinstance(query.window, RowsWindow):
        what, hint = "the answers of a query with a window of rows cannot be a stream", "Write RANGE and SLIDE."
        raise Unsupported(what, text=text, place=(text.find("["), text.find("]") + 1), hint=hint)
    for output in query.outputs:
        if output.name == TIME and query.is_continuous and _is_time(query, output.expression):
            continue
        if output.name.lower() == TIME:
            raise _named_as_time(query, output.name)


def _named_as_time(query: Query, name: str) -> LanguageError:
    """Word the error for an output that has the name of the event time."""
    what, detail = f'an output is called "{name}"', "the event time of a stream of answers has that name"
    place = (0, len(query.text))
    return LanguageError(what, text=query.text, place=place, detail=detail, hint="Add an alias with AS.")


def _is_time(query: Query, placeholder: str) -> bool:
    """Tell whether an output is a column of the name that the event time has."""
    return query.keys[int(placeholder.strip("`")[1:])] == f"`{TIME}`"


def refuse_past(chosen: Sequence[Definition], catalog: Catalog, since: str) -> None:
    """Refuse to answer windows of the past where the answers could not be taken any more."""
    for definition in chosen:
        if catalog.makes_stream(definition.name):
            what = f'the answers of query "{definition.name}" are a stream, which has already passed these windows'
            raise Unsupported(what, hint="Drop the stream, and create it anew WITH (from = 'beginning').")
        if says_changes(definition.query):
            what = f'query "{definition.name}" emits only changes, and has already passed these windows'
            raise Unsupported(what, hint="Name queries that emit every answer.")
        if definition.query.is_continuous:
            what = f'query "{definition.name}" has no window, and has answered the rows since it came'
            given = f"(from = {write_string(since)})"
            altered = f"ALTER QUERY {write_name(definition.name)} SET {given}"
            after = "results have each row once, and sinks get the past from the new version."
            hint = f"Write WITH {given} into its file in a project; in Python, run {altered}: {after}"
            raise Unsupported(what, hint=hint)
        if isinstance(definition.query.window, SessionWindow):
            what = f'query "{definition.name}" answers sessions, which begin with the rows to come'
            raise Unsupported(what, hint="Name queries with windows of time.")
        if isinstance(definition.query.window, RowsWindow):
            what = f'query "{definition.name}" has a window of rows, which has no past'
            raise Unsupported(what, hint="Name queries with windows of time.")


def refuse_resuming(definition: Definition, paused: Mapping[int, Paused]) -> None:
    """Refuse to go on where the windows of parts that hold a failing row cannot be told from others."""
    window, pause = definition.query.window, paused.get(definition.id)
    if isinstance(window, RowsWindow) and window.partition and pause is not None and pause.kind != "by hand":
        what = f'query "{definition.name}" failed on a row of a window with PARTITION BY and cannot be resumed'
        raise Unsupported(what, detail=pause.reason, hint="Drop it, and create it anew.")
