"""Opens the streams and tables of the catalog as Spark frames, with the columns that they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock.model.schema import Column, Stream, Table
from penstock.sources.registry import check_source
from penstock.spark.session.own_session import made_in
from penstock.spark.sources.computed_columns import marked, with_computed
from penstock.spark.sources.frames import check_columns, ddl_of
from penstock.spark.sources.readers import Position, SourceReader, Tell, Unit, reader_of


def read_stream(session: SparkSession, stream: Stream) -> DataFrame:
    """Open a stream's source with its declared columns."""
    return with_computed(checked(stream).open_stream(session, stream), stream.columns)


def read_batch(session: SparkSession, table: Table, tell: Tell) -> DataFrame:
    """Read a table with its declared columns; ``tell`` users what they should know."""
    return with_computed(checked(table).read_table(session, table, tell), table.columns)


def table_version(table: Table) -> str:
    """Name what a table holds now; one of the program itself changes with its name only."""
    reader = reader_of(table)
    return "given" if reader is None else reader.version(table)


def with_columns(session: SparkSession, source: Stream | Table) -> Stream | Table:
    """Check a stream or table, and give it the columns its source has if none are named."""
    checked(source)
    whole = replace(source, columns=source.columns or inferred_columns(session, source))
    if isinstance(whole, Stream):
        check_columns(whole)
    return whole


def inferred_columns(session: SparkSession, item: Stream | Table) -> tuple[Column, ...]:
    """Let Spark find the columns of what is there already."""
    return checked(item).columns(session, item)


def history(
    session: SparkSession, stream: Stream, checkpoint: Path, source: str, *, accept_changed: bool = False
) -> DataFrame | None:
    """Return all rows up to a position (the text of Spark's offsets file); None: the source cannot be read again.

    Before the first batch, with an empty position, there are no rows. Files that were written again since they were
    read are refused unless they are accepted: their rows are those of now then.
    """
    reader = reader_of(stream)
    if reader is None:
        return None
    rows = reader.history(session, stream, Position(checkpoint, source), accept_changed=accept_changed)
    if rows is None:
        return marked(made_in(session, [], ddl_of(stream.columns)), stream.columns)
    return with_computed(rows, stream.columns)


def has_units(stream: Stream) -> bool:
    """Tell whether the history of a stream can be read in parts."""
    reader = reader_of(stream)
    return reader is not None and reader.in_units


def history_units(
    session: SparkSession, stream: Stream, checkpoint: Path, stretch: tuple[str, str], *, accept_changed: bool
) -> list[Unit]:
    """List what was read after one position up to another, in units."""
    reader, (after, upto) = reader_of(stream), (Position(checkpoint, text) for text in stretch)
    assert reader is not None
    return reader.history_units(session, stream, after, upto, accept_changed=accept_changed)


def read_units(session: SparkSession, stream: Stream, units: Sequence[Unit]) -> DataFrame:
    """Read some units of a stream's history; there may be none."""
    reader = reader_of(stream)
    if reader is None or not units:
        return marked(made_in(session, [], ddl_of(stream.columns)), stream.columns)
    return with_computed(reader.read_units(session, stream, units), stream.columns)


def check_history(
    session: SparkSession, stream: Stream, checkpoint: Path, source: str, *, accept_changed: bool = False
) -> None:
    """Make sure that the rows up to a position can be read again."""
    reader = reader_of(stream)
    if reader is not None:
        reader.check_history(session, stream, Position(checkpoint, source), accept_changed=accept_changed)


def read_whole(session: SparkSession, stream: Stream, position: Position, batch_id: int) -> DataFrame | None:
    """Read a batch once more with all its columns, and beside them what is known of each row; None: it cannot be."""
    reader = reader_of(stream)
    return None if reader is None or not position.text else reader.read_whole(session, stream, position, batch_id)


def checked(item: Stream | Table) -> SourceReader:
    """Refuse an unknown format, wrong options and what cannot be opened; return the reader."""
    check_source(item)
    reader = reader_of(item)
    assert reader is not None  # its format is known
    reader.check(item)
    return reader
