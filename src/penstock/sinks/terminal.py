"""Prints answers as lines on a terminal; this is the one sink that is at-least-once."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import pyarrow as pa

from penstock.printable import json_text, shown
from penstock.sinks.protocol import Progressing
from penstock.sinks.recorded import RecordedWriter
from penstock.sinks.row_values import plain_rows


class TerminalSink:
    """Prints each answer as a line: its query, the window's start and end, ``symbol=A n=12``.

    At-least-once: nobody can take back what a terminal has shown. A commit that was printed and not recorded when the
    process died is printed again.
    """

    kind = "terminal"

    def __init__(self, out: TextIO | None = None) -> None:
        """Print to a text stream, by default to standard output as it is when an answer is printed."""
        self.out = out

    def open(self, stream: str, memory: Progressing) -> TerminalWriter:
        """Open the writer of one stream."""
        return TerminalWriter(self, memory)


class TerminalWriter(RecordedWriter):
    """Prints one stream's answers."""

    def __init__(self, sink: TerminalSink, memory: Progressing) -> None:
        """Go on where the last record stands."""
        super().__init__(memory)
        self.sink = sink

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Print a commit's answers and remember its number."""
        if number <= self._delivered:
            return
        out = self.sink.out or sys.stdout
        for table in tables:
            out.writelines(f"{line_of(row)}\n" for row in plain_rows(table))
        out.flush()
        self._delivered = number
        self.memory.write({"delivered": number})

    def roll(self) -> None:
        """Do nothing: what is printed is visible."""


def line_of(row: dict[str, Any]) -> str:
    """Write an answer as one line: its query, its window, its revision if it is one, and its columns."""
    values = dict(row)
    version = values.pop("query_version", 1)
    head = [
        shown(_queries_of(values)) + (f" (version {version})" if version != 1 else ""),
        _time_of(values),
    ]
    if "op" in values and "revision" in values:
        head.append(f"{values.pop('op')} {values.pop('revision')}")
    return "  ".join([*head, columns_of(values, " ")])


def _queries_of(values: dict[str, Any]) -> str:
    """Take the query out of an answer, or the queries that take a row."""
    if "query_name" in values:
        return str(values.pop("query_name"))
    return ", ".join(map(str, values.pop("queries")))


def _time_of(values: dict[str, Any]) -> str:
    """Take the window out of an answer; of a row, when it happened, and whether it was late."""
    if "event_time" not in values:
        return f"{values.pop('window_start', '')} – {values.pop('window_end', '')}"
    for name in ("commit", "ordinal"):
        values.pop(name)
    return f"{values.pop('event_time')}{' (late)' if values.pop('late') else ''}"


def columns_of(row: Mapping[str, Any], between: str = "  ") -> str:
    """Write the columns of an answer, as JSON can hold it, as ``name=value``."""
    return between.join(f"{shown(name)}={value_text(value)}" for name, value in row.items())


def value_text(value: Any) -> str:
    """Write a value; text that would not read as one word is in quotes, and what would steer a terminal escaped."""
    if isinstance(value, str) and value and value.isprintable() and not set(value) & set(' ="'):
        return value
    return json_text(value)
