"""Words the errors for names that are missing, taken or still in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from penstock.errors import (
    CatalogError,
    PenstockError,
    UnknownFunction,
    UnknownQuery,
    UnknownStream,
    UnknownTable,
    nearest,
)

Kind = Literal["stream", "table", "query", "function"]
KINDS: Final[tuple[Kind, ...]] = ("stream", "table", "query", "function")
_LISTED: Final = 20
_REPLACE: Final[dict[Kind, str]] = {
    "query": "Replace it (CREATE OR REPLACE QUERY, penstock add --replace, or engine.alter_query)",
    "function": "Write CREATE OR REPLACE FUNCTION",
}
_UNKNOWN: Final[dict[Kind, type[PenstockError]]] = {
    "stream": UnknownStream,
    "table": UnknownTable,
    "query": UnknownQuery,
    "function": UnknownFunction,
}


def missing(kind: Kind, name: str, known: Sequence[str], other: Kind | None = None) -> PenstockError:
    """Word the error for a name that is not there; ``other`` is what has this name instead."""
    several = "queries" if kind == "query" else f"{kind}s"
    listed = ", ".join(known[:_LISTED]) + ", …" * (len(known) > _LISTED)
    existing = f"existing {several}: {listed}" if listed else f"there are no {several}"
    if other is not None:
        return _UNKNOWN[kind](f'"{name}" is a {other}, not a {kind}', detail=existing, hint=_for_another(other))
    hint = nearest(name, known)
    return _UNKNOWN[kind](f'there is no {kind} "{name}"', detail=None if hint else existing, hint=hint)


def _for_another(kind: Kind) -> str:
    """Say what there is to do with something else, and where."""
    word = kind.upper()
    statements = f"DROP {word} and DESCRIBE {word} are statements, for a script or engine.execute in Python"
    by_file = {"stream": "penstock.yml", "table": "penstock.yml", "query": "queries/", "function": "functions"}
    goes = f"A project's {kind} goes when it is taken out of {by_file[kind]} and penstock run starts again"
    return f"{goes}. {statements}."


def existing_name(kind: Kind, name: str) -> CatalogError:
    """Word the error for a name that is taken."""
    replace = _REPLACE.get(kind, "Drop it first")
    return CatalogError(f'{kind} "{name}" exists already', hint=f"{replace}, or choose another name.")


def other_before(name: str) -> CatalogError:
    """Word the error for a stream under the name of another one whose commits are still there."""
    what = f'another stream called "{name}" was dropped, and its commits are still in the state folder'
    return CatalogError(what, hint="Choose another name.")


def still_read(kind: Kind, name: str, query: str) -> CatalogError:
    """Word the error for a stream or table that a query reads."""
    return CatalogError(f'{kind} "{name}" is read by query "{query}"', hint="Drop the query first.")


def still_joined(name: str, stream: str) -> CatalogError:
    """Word the error for a stream that is joined with another one."""
    return CatalogError(f'stream "{name}" is read by stream "{stream}"', hint=f'Drop stream "{stream}" first.')


def joined_before(name: str) -> CatalogError:
    """Word the error for a join under the name of a stream whose commits are still there."""
    what = f'a stream called "{name}" was dropped, and its commits are still in the state folder'
    return CatalogError(what, hint="Choose another name.")


def still_called(name: str, user: str, kind: Kind = "query") -> CatalogError:
    """Word the error for a Python function that a query, or a join of two streams, calls."""
    return CatalogError(f'function "{name}" is called by {kind} "{user}"', hint=f"Drop the {kind} first.")


def makes_stream(name: str) -> CatalogError:
    """Word the error for a query whose answers are a stream."""
    what = f'the answers of query "{name}" are stream "{name}"'
    return CatalogError(what, hint=f"Drop the stream, DROP STREAM {name}, and create it anew.")
