"""Writes log records as lines of text or JSON, to standard error or to a file."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Final, Literal

import click

from penstock.model.instants import format_instant
from penstock.printable import json_text, visible

LOG: Final = logging.getLogger("penstock")
Form = Literal["text", "json"]
FORMS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")
ABOUT: Final = ("stream", "query", "sink")  # what a record may concern, in its `extra`, beside its `event`


class TextLines(logging.Formatter):
    """Writes a record as one line for people; a message of several lines goes on indented.

    The trace of a defect follows where a file is written, for those who mend it; people who watch get the line alone.
    """

    def __init__(self, *, traces: bool = False) -> None:
        """Write traces, or leave them out."""
        super().__init__()
        self.traces = traces

    def format(self, record: logging.LogRecord) -> str:
        """Write time, level, what it concerns, and the message."""
        about = [f"{name} {value}" for name in ABOUT if (value := getattr(record, name, None)) is not None]
        head = f"{_at(record)} {record.levelname.lower()}"
        lines = record.getMessage().splitlines()
        if self.traces and record.exc_info:
            lines += self.formatException(record.exc_info).splitlines()
        message = "\n  ".join(map(visible, lines))
        return f"{head} {'[' + visible(', '.join(about)) + '] ' if about else ''}{message}"


class JsonLines(logging.Formatter):
    """Writes a record as one JSON object: at, level, event, stream, query, sink, message, and figures."""

    def format(self, record: logging.LogRecord) -> str:
        """Write what is known; a record that names no event is a report."""
        told = {
            "at": _at(record),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "report"),
            **{name: getattr(record, name, None) for name in ABOUT},
            "message": record.getMessage(),
            **getattr(record, "figures", {}),
        }
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return json_text(told, default=str)


def _at(record: logging.LogRecord) -> str:
    """Write when a record was made."""
    return format_instant(int(record.created * 1_000_000), digits=3)


@contextmanager
def logged(form: Form, file: Path | None, level: str) -> Iterator[None]:
    """Write what Penstock logs while work goes on; a file that a rotation moved away is opened anew."""
    handler = _handler(form, file)
    handler.setFormatter(JsonLines() if form == "json" else TextLines(traces=file is not None))
    before = LOG.level, LOG.propagate
    LOG.addHandler(handler)
    LOG.setLevel(level.upper())
    LOG.propagate = False
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        handler.close()
        LOG.setLevel(before[0])
        LOG.propagate = before[1]


def _handler(form: Form, file: Path | None) -> logging.Handler:
    """Open where the lines go."""
    if file is None:
        handler: logging.Handler = logging.StreamHandler(sys.stderr)
        if form == "text":  # what stops a stream is an error, and printed in the end
            handler.addFilter(lambda record: not isinstance(record.msg, BaseException))
        return handler
    try:
        return WatchedFileHandler(file, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"--log-file {file}: {error.strerror}") from None
