"""Reads the files again that the committed batches of a stream had, if they are still the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from penstock.errors import SourceError
from penstock.model.schema import Stream
from penstock.spark.sources.file_log import entries_between, offset_of
from penstock.spark.sources.file_versions import Changed, changed_files

MOST_NAMED: Final = 5  # files in an error
ACCEPTING: Final = "WITH (from = …, changed_files = 'accept'), or penstock backfill --accept-changed-files"


def check_files(
    session: SparkSession,
    stream: Stream,
    checkpoint: Path,
    source: str,
    *,
    accept_changed: bool = False,
    after: str = "",
) -> list[Mapping[str, Any]]:
    """Make sure that the files up to a position are those that were read; return what Spark's log says of them.

    Those up to the position ``after`` are left out.
    """
    _refuse_moved_files(stream)
    first, last = _number(stream, after) + 1, _number(stream, source)
    entries = entries_between(stream, checkpoint, first, last) if first <= last else []
    changed = changed_files(session, checkpoint, entries)
    gone = [one for one in changed if one.now is None]
    if gone:
        raise SourceError(
            f'the history of stream "{stream.name}" is incomplete: {gone[0].path} is gone{_more(gone)}',
            detail=_listed(gone) or "Its rows were in batches that are committed.",
            hint="Put it back, or start the query without from = 'beginning'.",
        )
    if changed and not accept_changed:
        what = f"is not as it was read: {changed[0].path} has changed{_more(changed)}"
        raise SourceError(
            f'the history of stream "{stream.name}" {what}',
            detail="\n".join(map(str, changed[:MOST_NAMED])),
            hint=f"Put back what was read, or accept what is there now: {ACCEPTING}.",
        )
    return entries


def _number(stream: Stream, source: str) -> int:
    """Return the number of a position in Spark's log of files; −1: before the first."""
    return int(offset_of(stream, source).get("logOffset", -1))


def _more(changed: Sequence[Changed]) -> str:
    """Count the files beside the first."""
    return f", and {len(changed) - 1:,} more" if len(changed) > 1 else ""


def _listed(changed: Sequence[Changed]) -> str:
    """Name several files, a line each."""
    return "\n".join(one.path for one in changed[:MOST_NAMED]) if len(changed) > 1 else ""


def _refuse_moved_files(stream: Stream) -> None:
    """Refuse a source that does away with files once they are read."""
    for option, value in stream.options.items():
        if option.lower() == "cleansource" and value.lower() != "off":
            raise SourceError(
                f'stream "{stream.name}" has no history: option {option} = {value} removes files once they are read',
                hint="Leave the option out, or start the query without from = 'beginning'.",
            )
