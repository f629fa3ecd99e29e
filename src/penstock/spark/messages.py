"""Finds the sentence in a Spark exception that says what happened."""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JJavaError

LONGEST: Final = 300
RAISED: Final = "[USER_RAISED_EXCEPTION] "  # before what a user's function says itself


def message_of(error: BaseException) -> str:
    """Take the innermost cause's first line: the outer ones only say that a job or a call failed."""
    text = _java_message(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    line = next((part.strip() for part in text.splitlines() if part.strip()), type(error).__name__)
    return line.removeprefix(RAISED).split("SQLSTATE", 1)[0].rstrip(" .;")[:LONGEST]


def _java_message(exception: Any) -> str:
    """Follow the causes down to the last one that has something to say."""
    message = exception.toString()
    while (cause := exception.getCause()) is not None:
        exception = cause
        message = exception.getMessage() or message
    return str(message)
