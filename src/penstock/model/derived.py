"""Names and describes derived streams: the numbered rows of a stream, the answers of a query, pairs of two streams."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from penstock.model.schema import Column, Stream
from penstock.model.stream_join import StreamJoin
from penstock.model.window import RowsWindow

ROWS: Final = "rows"  # format of a stream's rows, numbered
ANSWERS: Final = "answers"  # format of a query's answers
PAIRS: Final = "pairs"  # format of a window join of two streams
EACH_ROW: Final = "each row"  # format of the rows that a continuous query answers
MADE: Final = (ANSWERS, EACH_ROW)  # formats of streams that a query makes
FED: Final = (ROWS, *MADE, PAIRS)  # formats whose rows another stream brings
NUMBER: Final = "__row"  # a row's number, as microseconds since 1970; users' streams have no column of this name
TIME: Final = "ts"  # of answers that are a stream
AT_ONCE_US: Final = -1  # lateness: what comes is final, so the watermark is right behind the last row
NEVER_LATE_US: Final = 1 << 62  # lateness of rows that are numbered apart: one part says nothing of another
ANY_TIME_US: Final = 1 << 61  # max_ahead: these times are no clock's
COMMON_SLIDES: Final = 2**10 * 3**3 * 5**4 * 7 * 11 * 13  # slides that divide it share one line of parts
_MARK: Final = "#rows"  # no stream of a user's has such a name
_EACH: Final = "#each"
_SOURCE: Final = "of"
_TEXT: Final = "query"
_JOIN: Final = "join"


def line_name(stream: str, window: RowsWindow) -> str:
    """Name a stream's rows as they are numbered for a window, all together or apart by columns."""
    if not window.partition:
        return stream + _MARK
    apart = "" if COMMON_SLIDES % window.slide == 0 else str(window.slide)
    told = hashlib.sha256("\0".join([*window.partition, apart]).encode()).hexdigest()[:8]  # columns hold any letters
    return f"{stream}{_MARK}-{told}"


def stride_of(window: RowsWindow) -> int:
    """Return how far apart the parts of rows lie on the line of their numbers: a multiple of the slide."""
    return -(-COMMON_SLIDES * 4 // window.slide) * window.slide


def rows_name(stream: str) -> str:
    """Name what a stream's continuous queries answer, for sinks, which number it apart from answers to windows."""
    return stream + _EACH


def since_line(name: str, since_us: int | None) -> str:
    """Name the line of parts whose rows are numbered from a time on: its queries began together."""
    return name if since_us is None or not is_apart(name) else f"{name}@{since_us}"


def same_line(name: str) -> str:
    """Return a line's name without the time from which on it is numbered."""
    return name.partition("@")[0] if is_line(name) else name


def is_line(name: str) -> bool:
    """Tell whether a name is one of numbered rows."""
    return _MARK in name


def is_apart(name: str) -> bool:
    """Tell whether a name is one of rows that are numbered apart by columns."""
    return f"{_MARK}-" in name


def source_of(name: str) -> str:
    """Return the stream whose rows a name means: itself, unless they are numbered."""
    return name.partition(_MARK)[0]


def numbered(stream: Stream, name: str) -> Stream:
    """Describe a stream's numbered rows."""
    columns = (*stream.columns, Column(NUMBER, "timestamp"))
    lateness_us = NEVER_LATE_US if is_apart(name) else AT_ONCE_US
    return Stream(name, columns, NUMBER, lateness_us, ANY_TIME_US, ROWS, {_SOURCE: stream.name})


def answers_stream(name: str, source: str, columns: Sequence[Column], text: str) -> Stream:
    """Describe a query's answers as a stream: event time is right before the window's end."""
    own = (Column("window_start", "timestamp"), Column("window_end", "timestamp"))
    whole = (*own, *columns, Column(TIME, "timestamp"))
    return Stream(name, whole, TIME, AT_ONCE_US, ANY_TIME_US, ANSWERS, {_SOURCE: source, _TEXT: text})


def rows_stream(name: str, source: Stream, columns: Sequence[Column], text: str) -> Stream:
    """Describe the rows that a continuous query answers as a stream; event time and lateness are those of its source.

    A column of the query's may be the event time already.
    """
    has_time = any(column.name == TIME for column in columns)
    whole = (*columns, *(() if has_time else (Column(TIME, "timestamp"),)))
    return Stream(name, whole, TIME, source.lateness_us, ANY_TIME_US, EACH_ROW, {_SOURCE: source.name, _TEXT: text})


def pairs_stream(name: str, join: StreamJoin, columns: Sequence[Column], text: str) -> Stream:
    """Describe the pairs of a join as a stream: its watermark is the lesser of both streams', not its own rows'."""
    whole, options = (*columns, Column(TIME, "timestamp")), {_TEXT: text, _JOIN: join.to_text()}
    return Stream(name, whole, TIME, NEVER_LATE_US, ANY_TIME_US, PAIRS, options)


def join_of(stream: Stream) -> StreamJoin | None:
    """Return the join that a stream is; None: it is none."""
    return _read(stream.options[_JOIN]) if stream.format == PAIRS else None


def beginning_at(stream: Stream, begins: tuple[int, int]) -> Stream:
    """Let a join begin after some commits of both streams."""
    join = replace(_read(stream.options[_JOIN]), begins=begins)
    return replace(stream, options={**stream.options, _JOIN: join.to_text()})


@lru_cache(maxsize=1_024)  # asked for at every batch
def _read(text: str) -> StreamJoin:
    """Read a join back."""
    return StreamJoin.from_text(text)


def leaders_of(stream: Stream) -> tuple[str, ...]:
    """Return the streams that bring another one's rows, each once; none: its source does."""
    if (join := join_of(stream)) is not None:
        return tuple(dict.fromkeys(side.stream for side in join.sides))
    return (stream.options[_SOURCE],) if stream.format in FED else ()


def text_of(stream: Stream) -> str:
    """Return the SELECT whose answers, or whose pairs, are a stream."""
    return stream.options[_TEXT]
