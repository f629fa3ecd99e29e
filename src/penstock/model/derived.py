"""Streams that others make: the numbered rows of a stream, and the answers of a query; their names and columns."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from penstock.model.duration import DAY
from penstock.model.schema import Column, Stream

ROWS: Final = "rows"  # format of a stream's rows, numbered
ANSWERS: Final = "answers"  # format of a query's answers
FED: Final = (ROWS, ANSWERS)  # formats whose rows another stream brings
NUMBER: Final = "__row"  # a row's number, as microseconds since 1970; users' streams have no column of this name
TIME: Final = "ts"  # of answers that are a stream
AT_ONCE_US: Final = -1  # lateness: what comes is final, so the watermark is right behind the last row
ANY_TIME_US: Final = 100 * 365 * DAY  # max_ahead: these times are no clock's
_MARK: Final = "#rows"  # no stream of a user's has such a name
_SOURCE: Final = "of"
_TEXT: Final = "query"


def line_name(stream: str, partition: Sequence[str] = ()) -> str:
    """Name a stream's rows as they are numbered, all together or apart by columns."""
    told = hashlib.sha256("\0".join(partition).encode()).hexdigest()[:8]  # names of columns may hold anything
    return f"{stream}{_MARK}-{told}" if partition else stream + _MARK


def is_line(name: str) -> bool:
    """Tell whether a name is one of numbered rows."""
    return _MARK in name


def source_of(name: str) -> str:
    """Return the stream whose rows a name means: itself, unless they are numbered."""
    return name.partition(_MARK)[0]


def numbered(stream: Stream, name: str) -> Stream:
    """Describe a stream's numbered rows."""
    columns = (*stream.columns, Column(NUMBER, "timestamp"))
    return Stream(name, columns, NUMBER, AT_ONCE_US, ANY_TIME_US, ROWS, {_SOURCE: stream.name})


def answers_stream(name: str, source: str, columns: Sequence[Column], text: str) -> Stream:
    """Describe a query's answers as a stream: event time is right before the window's end."""
    own = (Column("window_start", "timestamp"), Column("window_end", "timestamp"))
    whole = (*own, *columns, Column(TIME, "timestamp"))
    return Stream(name, whole, TIME, AT_ONCE_US, ANY_TIME_US, ANSWERS, {_SOURCE: source, _TEXT: text})


def leader_of(stream: Stream) -> str | None:
    """Return the stream that brings another one's rows; None: its source does."""
    return stream.options[_SOURCE] if stream.format in FED else None


def text_of(stream: Stream) -> str:
    """Return the query whose answers are a stream."""
    return stream.options[_TEXT]
