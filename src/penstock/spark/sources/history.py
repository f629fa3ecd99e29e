"""Reads all rows again that the committed batches of a stream had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import SourceError
from penstock.model.schema import Stream
from penstock.spark.session.own_session import made_in
from penstock.spark.sources.computed_columns import marked
from penstock.spark.sources.file_log import entries_between, offset_of
from penstock.spark.sources.file_versions import Changed, changed_files
from penstock.spark.sources.frames import FILE_FORMATS, ddl_of, made_again, read_again
from penstock.spark.sources.unreadable import path_of

MOST_NAMED: Final = 5  # files in an error
ACCEPTING: Final = "WITH (from = …, changed_files = 'accept'), or penstock backfill --accept-changed-files"


def history(
    session: SparkSession, stream: Stream, checkpoint: Path, source: str, *, accept_changed: bool = False
) -> DataFrame | None:
    """Return all rows up to a position (the text of Spark's offsets file); None: the source cannot be read again.

    Before the first batch, with an empty position, there are no rows. Files that were written again since they were
    read are refused unless they are accepted: their rows are those of now then.
    """
    if stream.format is None:
        return None
    if stream.format == "trades":
        return made_again(session, stream, int(offset_of(stream, source).get("offset", 0)))
    assert stream.format in FILE_FORMATS, stream.format
    entries = check_files(session, stream, checkpoint, source, accept_changed=accept_changed)
    if not entries:
        return marked(made_in(session, [], ddl_of(stream.columns)), stream.columns)
    return read_again(session, stream, list(dict.fromkeys(path_of(str(e["path"])) for e in entries)))


def check_files(
    session: SparkSession, stream: Stream, checkpoint: Path, source: str, *, accept_changed: bool = False
) -> list[Mapping[str, Any]]:
    """Make sure that the files up to a position are those that were read; return what Spark's log says of them."""
    if stream.format not in FILE_FORMATS:
        return []
    _refuse_moved_files(stream)
    entries = entries_between(stream, checkpoint, 0, int(offset_of(stream, source).get("logOffset", -1)))
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
