"""Converts errors to JSON records and back, with the same words."""

from __future__ import annotations

from typing import Any

from penstock import errors
from penstock.errors import PenstockError, RequestFailed


def error_record(error: BaseException) -> dict[str, Any]:
    """Write an error as JSON values; one that is not ours is a defect, and told as such."""
    if not isinstance(error, PenstockError):
        words = (str(error).splitlines() or [""])[0][:200]
        error = RequestFailed(
            f"something went wrong inside the running engine: {type(error).__name__}{': ' if words else ''}{words}",
            hint="The engine's log has the details; please report them.",
        )
    place = list(error.place) if error.place is not None else None
    return {
        "class": error.code,
        "what": error.what,
        "text": error.text,
        "place": place,
        "detail": error.detail,
        "hint": error.hint,
    }


def error_of(record: dict[str, Any]) -> PenstockError:
    """Make the error that a record tells of; a kind that this version does not know becomes a failed request."""
    kind = getattr(errors, str(record.get("class")), None)
    if not (isinstance(kind, type) and issubclass(kind, PenstockError)):
        kind = RequestFailed
    place = record.get("place")
    return kind(
        str(record.get("what")),
        text=record.get("text"),
        place=(int(place[0]), int(place[1])) if isinstance(place, list) and len(place) == 2 else None,
        detail=record.get("detail"),
        hint=record.get("hint"),
    )
