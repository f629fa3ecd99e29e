"""Turns what Spark raised while it read or wrote into an error that names the file and what to do."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from penstock.errors import PenstockError, SourceError, StateError
from penstock.spark.messages import message_of
from penstock.spark.sources.nanoseconds import HINT, nanoseconds_in

MEND: Final = (
    "Fix or replace the file and start again: its batch was not taken, and nothing that was committed is lost."
)
_READING: Final = re.compile(r"\[FAILED_READ_FILE\.(\w+)\][^\n]*? reading file (\S+)\.(?:\s|$)")
_TYPES: Final = re.compile(r"Parquet column \[(.+?)\]\. Expected Spark type (.+?), actual Parquet type (.+?)\.")
_FULL: Final = "No space left on device"


def worded(before: str, error: BaseException) -> PenstockError:
    """Word an error of Spark's; ``before`` says what it stopped."""
    messages = messages_of(error)
    for message in messages:
        if (match := _READING.search(message)) is not None:
            path, types = path_of(match[2]), _TYPES.search(message)
            if types is not None and types[3] == "INT64" and types[2].startswith("timestamp"):
                return _no_times(before, path, types[1])
            return SourceError(f"{before}cannot read {path}: {_reason(match[1], message, error)}", hint=MEND)
    if any(_FULL in message for message in messages):
        hint = "Free space for the state folder and for Spark's own files, then start again: nothing committed is lost."
        return StateError(f"{before}no space left on device", hint=hint)
    hint = "Fix the source and start again: nothing that was committed is lost."
    return SourceError(f"{before}{message_of(error).rpartition('terminated with exception: ')[2]}", hint=hint)


def _no_times(before: str, path: str, column: str) -> SourceError:
    """Word that whole numbers cannot be read as times; Spark does not say whether they count nanoseconds."""
    name = column.replace(", ", ".")
    found = [one for one in nanoseconds_in(path) if one.path.lower() == name.lower()]
    if not found and path.startswith("/"):
        return SourceError(f'{before}cannot read {path}: its column "{name}" is INT64, not a timestamp', hint=MEND)
    kind = "holds times in nanoseconds" if found else "holds times in nanoseconds, or whole numbers that are not times"
    what = f'{before}cannot read {path}: its column "{name}" {kind}, which Spark does not read'
    return SourceError(what, hint=f"{HINT} Its batch was not taken, and nothing that was committed is lost.")


def messages_of(error: BaseException) -> list[str]:
    """Collect what an error and its causes in the JVM say, the outermost first."""
    exception: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    found = [] if exception is not None else [str(error)]
    while exception is not None:
        found.append(str(exception.getMessage() or exception.toString()))
        exception = exception.getCause()
    return found


def path_of(uri: str) -> str:
    """Turn a URI as Spark writes it into a path as people write it."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme in ("", "file") else unquote(uri)


def _reason(kind: str, message: str, error: BaseException) -> str:
    """Say why a file cannot be read."""
    if (types := _TYPES.search(message)) is not None:
        return f'its column "{types[1]}" is {types[3]}, which cannot be read as {types[2]}'
    if kind == "FILE_NOT_EXIST":
        return "it is gone"
    said = re.sub(r"^\[[A-Z_.]+\] ", "", message_of(error))
    return said.split(": was expecting", 1)[0]
