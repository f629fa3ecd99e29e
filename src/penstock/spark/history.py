"""A stream and the position of its last committed batch in, all rows that the committed batches had out."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import SourceError
from penstock.model.schema import Stream
from penstock.spark.computed import marked
from penstock.spark.file_log import files_until, offset_of
from penstock.spark.sources import FILE_FORMATS, ddl_of, made_again, read_again
from penstock.spark.unreadable import path_of


def history(session: SparkSession, stream: Stream, checkpoint: Path, source: str) -> DataFrame | None:
    """Return all rows up to a position (the text of Spark's offsets file); None: the source cannot be read again.

    Before the first batch, with an empty position, there are no rows.
    """
    if stream.format is None:
        return None
    offset = offset_of(stream, source)
    if stream.format == "trades":
        return made_again(session, stream, int(offset.get("offset", 0)))
    assert stream.format in FILE_FORMATS, stream.format
    _refuse_moved_files(stream)
    paths = [path_of(uri) for uri in files_until(stream, checkpoint, int(offset.get("logOffset", -1)))]
    if not paths:
        return marked(session.createDataFrame([], ddl_of(stream.columns)), stream.columns)
    for path in paths:
        _check_there(stream, path)
    return read_again(session, stream, paths)


def _refuse_moved_files(stream: Stream) -> None:
    """Refuse a source that does away with files once they are read."""
    for option, value in stream.options.items():
        if option.lower() == "cleansource" and value.lower() != "off":
            raise SourceError(
                f'stream "{stream.name}" has no history: option {option} = {value} does away with files once read',
                hint="Leave the option out, or start the query without from = 'beginning'.",
            )


def _check_there(stream: Stream, path: str) -> None:
    """Make sure that a local file is still there."""
    if path.startswith("/") and not Path(path).exists():
        raise SourceError(
            f'the history of stream "{stream.name}" is not whole: {path} is gone',
            detail="Its rows were in batches that are committed.",
            hint="Put the file back, or start the query without from = 'beginning'.",
        )
