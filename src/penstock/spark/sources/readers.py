"""What Spark needs to know of a format: how its rows are opened, read again, and looked at as they come.

A reader belongs to a format's description in ``sources/``, which has checked an item before its reader sees it. It
returns the columns that the source brings; computed ones are added by others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import SourceError
from penstock.model.schema import Column, Stream, Table
from penstock.sources.registry import FORMATS

Tell: TypeAlias = Callable[[str], None]  # users what they should know
Unit: TypeAlias = Any  # of a history, as its reader lists it: a file, or the numbers of rows


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream's source was read: the text of Spark's offsets file, in a checkpoint of Spark's."""

    checkpoint: Path
    text: str  # empty: nothing was read yet


class BatchInspector(Protocol):
    """Looks at each batch of a stream before its rows are taken."""

    def looked_at(self, batch: DataFrame, batch_id: int, position: str) -> DataFrame:
        """Return the batch's rows, or refuse them."""

    def gone(self) -> SourceError | None:
        """Say so if the whole source is gone."""


class SourceReader(ABC):
    """Reads the rows of a format; what is not said here otherwise, it cannot do."""

    in_units = False  # its history can be read in parts, while the stream runs

    @abstractmethod
    def open_stream(self, session: SparkSession, stream: Stream) -> DataFrame:
        """Open a stream's source with its declared columns."""

    def check(self, item: Stream | Table) -> None:
        """Refuse what cannot be opened now, before anything is entered."""
        return

    def columns(self, session: SparkSession, item: Stream | Table) -> tuple[Column, ...]:
        """Find the columns of an item that declares none."""
        raise SourceError(f'"{item.name}": {item.format} does not tell its columns', hint="Declare its columns.")

    def read_table(self, session: SparkSession, table: Table, tell: Tell) -> DataFrame:
        """Read a table with its declared columns."""
        raise SourceError(f'"{table.name}": a table cannot be {table.format}')

    def version(self, table: Table) -> str:
        """Name what a table holds now; it is read anew once that is another."""
        return "given"

    def history(
        self, session: SparkSession, stream: Stream, position: Position, *, accept_changed: bool
    ) -> DataFrame | None:
        """Return all rows up to a position; None: there are none."""
        raise self._no_history(stream)

    def history_units(
        self, session: SparkSession, stream: Stream, after: Position, upto: Position, *, accept_changed: bool
    ) -> list[Unit]:
        """List what was read after one position up to another, in units that can be read apart."""
        raise self._no_history(stream)

    def read_units(self, session: SparkSession, stream: Stream, units: Sequence[Unit]) -> DataFrame:
        """Read some units once more, at least one."""
        raise self._no_history(stream)

    def check_history(self, session: SparkSession, stream: Stream, position: Position, *, accept_changed: bool) -> None:
        """Refuse a history that cannot be read, as it was unless changes are accepted."""
        raise self._no_history(stream)

    def inspector(self, stream: Stream, checkpoint: Path, tell: Tell) -> BatchInspector | None:
        """Return who looks at the batches of a stream before they are taken; None: nobody need."""
        return None

    def read_whole(self, session: SparkSession, stream: Stream, position: Position, batch_id: int) -> DataFrame | None:
        """Read a batch once more with all its columns, for rows that are kept aside; None: that cannot be."""
        return None

    def _no_history(self, stream: Stream) -> SourceError:
        """Word that rows cannot be read again."""
        return SourceError(
            f'the past rows of stream "{stream.name}" cannot be had',
            detail=f"Its rows are not kept, and {stream.format} is not read again.",
            hint="Leave out the option from, or keep rows with retain_rows = '1 h' for queries to come.",
        )


def reader_of(item: Stream | Table) -> SourceReader | None:
    """Return the reader of a stream or table; None: a program or another stream brings its rows."""
    described = FORMATS.get(item.format or "")
    return None if described is None else _made(described.reader)


@cache
def _made(reader: str | type) -> SourceReader:
    """Make a reader once."""
    if isinstance(reader, str):
        module, _, name = reader.partition(":")
        reader = getattr(import_module(module), name)
    made: SourceReader = reader()  # type: ignore[operator]
    return made
