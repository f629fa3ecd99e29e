"""Reads tables of Postgres, and reads them again when they have changed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import SourceError
from penstock.model.schema import Column, Stream, Table
from penstock.sources.postgres import REFRESH_S, asked, columns_in_database, unreadable
from penstock.sources.postgres_database import connected, driver
from penstock.spark.session.own_session import made_in
from penstock.spark.sources.readers import SourceReader, Tell
from penstock.spark.sources.rows import schema_of

if TYPE_CHECKING:
    from psycopg import Connection

LOG: Final = logging.getLogger("penstock")
# One number for all rows, whatever their order; the database finds it without sending any.
_DIGEST: Final = "SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)), 0) FROM {} t"
# Neither Spark nor Python has infinite times.
_MICROS: Final = "CASE WHEN isfinite({0}::%(kind)s) THEN (extract(epoch FROM {0}::%(kind)s) * 1000000)::bigint END"
_DAYS: Final = "CASE WHEN isfinite({0}::date) THEN {0}::date - DATE '1970-01-01' END"


@dataclass(frozen=True, slots=True)
class TableReading:
    """What a table held when it was last read, and when somebody last looked."""

    version: str
    columns: tuple[tuple[str, str], ...]  # all of them, as the database types them
    rows: tuple[tuple[Any, ...], ...]
    looked: float


class PostgresTables(SourceReader):
    """Reads tables of Postgres; it remembers what each held, since a version is read once and loaded for each join."""

    clock = staticmethod(time.monotonic)

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._read: dict[tuple[str, ...], TableReading] = {}
        self._reading = threading.Lock()

    def open_stream(self, session: SparkSession, stream: Stream) -> DataFrame:
        """Refuse: rows of a table do not arrive."""
        raise SourceError(f'"{stream.name}": a stream cannot be {stream.format}')

    def columns(self, session: SparkSession, item: Stream | Table) -> tuple[Column, ...]:
        """Ask the database."""
        return columns_in_database(item)

    def version(self, table: Table) -> str:
        """Name what a table holds; a database that is down holds what it held."""
        return self._current(table).version

    def read_table(self, session: SparkSession, table: Table, tell: Tell) -> DataFrame:
        """Make a frame of what was read."""
        schema = schema_of(session, table.columns)
        rows = self._current(table).rows
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        arrays = [_array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        return made_in(session, pa.Table.from_arrays(arrays, schema=schema))

    def _current(self, table: Table) -> TableReading:
        """Return what a table holds, looking again if the last look is long ago."""
        key = (table.options["database"], table.options["table"], *(f"{c.name} {c.type}" for c in table.columns))
        with self._reading:
            known, now = self._read.get(key), self.clock()
            refresh = int(table.options.get("refresh_seconds", REFRESH_S))
            if known is None or now - known.looked >= refresh:
                known = self._read[key] = self._looked(table, known, now)
            return known

    def _looked(self, table: Table, known: TableReading | None, now: float) -> TableReading:
        """Look at a table, and read it if it has changed."""
        try:
            with connected(table.options["database"]) as connection:
                return _reading(connection, table, known, now)
        except driver().Error as error:
            if known is None:
                raise unreadable(table, error) from None
            LOG.warning(
                f"{unreadable(table, error).what}; rows are joined with what it held", extra={"event": "report"}
            )
            return replace(known, looked=now)


def _reading(connection: Connection[Any], table: Table, known: TableReading | None, now: float) -> TableReading:
    """Read a table as of one moment, unless it is as it is known."""
    sql = driver("psycopg.sql")
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    columns = tuple(asked(connection, table))
    name = connection.execute("SELECT %s::regclass::text", (table.options["table"],)).fetchone()
    where = sql.SQL(str(name[0]) if name else "")
    count, digest = connection.execute(sql.SQL(_DIGEST).format(where)).fetchone() or (0, 0)
    version = f"{count}-{digest}"
    if known is not None and (known.version, known.columns) == (version, columns):
        return replace(known, looked=now)
    there = dict(columns)
    if missing := [column.name for column in table.columns if column.name not in there]:
        listed = f"existing columns: {', '.join(there)}"
        raise SourceError(f'table "{table.name}" has no column "{missing[0]}" in Postgres', detail=listed)
    asked_for = [sql.SQL(_expression(table, c)).format(sql.Identifier(c.name)) for c in table.columns]
    text = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(asked_for), where)
    rows = connection.execute(text).fetchall()
    return TableReading(version, columns, tuple(map(tuple, rows)), now)


def _expression(table: Table, column: Column) -> str:
    """Write what is selected of a column; times are numbers, since Python does not have all of them."""
    word = column.type.lower()
    if word in ("timestamp", "timestamp_ltz"):
        return _MICROS % {"kind": "timestamptz"}
    if word == "timestamp_ntz":
        return _MICROS % {"kind": "timestamp"}
    if word == "date":
        return _DAYS
    if word.startswith("decimal"):
        return "nullif({0}::numeric, 'NaN')::numeric" + word.removeprefix("decimal")
    if word not in _CASTS:
        raise SourceError(
            f'table "{table.name}": Postgres gives no column of type {column.type}',
            hint=f"Declare {column.name} as STRING, and read its parts where it is used.",
        )
    return "{0}::" + _CASTS[word]


_CASTS: Final = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "binary": "bytea",
    "string": "text",
}


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Make a column; times came as numbers."""
    if pt.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pt.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, kind)
