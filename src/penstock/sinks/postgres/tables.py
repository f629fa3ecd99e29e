"""Finds or makes the table of each query: its columns, and the key that tells one answer from all others.

A table that Penstock made says so in its comment, and gains the columns that a query gains. Answers that contradict
it, because a column has another type now, go to another one: ``flow~2`` beside ``flow``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.errors import SinkError
from penstock.sinks.postgres.binary import type_of
from penstock.sinks.postgres.names import LONGEST_NAME, identifier
from penstock.sources.postgres_database import driver

if TYPE_CHECKING:
    from psycopg import Connection

KEY: Final = "penstock_key"
PROGRESS: Final = "penstock_progress"
LEFT_OUT: Final = "query_name"  # the table has it
_TAKEN: Final = (KEY, "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")  # Postgres has the others of its own
_OURS: Final = "answers of the Penstock query "
LOG: Final = logging.getLogger("penstock")


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table that is there."""

    columns: Mapping[str, str]  # types, by name
    ours: bool
    keyed: bool  # its key is unique

    def lacks(self, columns: Mapping[str, str]) -> dict[str, str]:
        """List columns that it does not have."""
        return {name: kind for name, kind in columns.items() if name not in self.columns}

    def contradicts(self, columns: Mapping[str, str]) -> str | None:
        """Name a column that has another type."""
        others = (f'"{n}" is {self.columns[n]}, not {k}' for n, k in columns.items() if self.columns.get(n, k) != k)
        return next(others, None)


def columns_of_answers(schema: pa.Schema) -> dict[str, str]:
    """Name the columns of a table, each with the column of the answers that it takes."""
    return {identifier(name, _TAKEN): name for name in schema.names if name != LEFT_OUT}


class AnswerTables:
    """The tables of the queries whose answers one writer takes."""

    def __init__(self, schema: str) -> None:
        """Look into a schema of the database."""
        self.schema = schema
        self._known: dict[tuple[str, str], str] = {}  # by query and columns

    def of(self, connection: Connection[Any], query: str, schema: pa.Schema) -> str:
        """Return the table of a query for answers with some columns; it is made, or gains some."""
        named = columns_of_answers(schema)
        types = {KEY: "uuid"} | {name: type_of(schema.field(source).type).name for name, source in named.items()}
        told = str(list(types.items()))
        if (query, told) not in self._known:
            self._known[query, told] = self._taking(connection, query, types)
        return self._known[query, told]

    def _taking(self, connection: Connection[Any], query: str, types: Mapping[str, str]) -> str:
        """Find the first table of a query that takes some columns."""
        for name in _places(identifier(query, (PROGRESS,))):
            found = self._found(connection, name)
            if found is None:
                self._make(connection, name, query, types)
                return name
            if (other := found.contradicts(types)) is None and (found.ours or found.keyed):
                self._add(connection, name, found.lacks(types))
                return name
            if not found.ours:
                raise self._unfit(name, other or f'"{KEY}" is not its primary key', types)
        raise AssertionError("places do not end")

    def _found(self, connection: Connection[Any], name: str) -> FoundTable | None:
        """Look at a table; None: there is none."""
        about = connection.execute(_TABLE, (self.schema, name)).fetchone()
        if about is None:
            return None
        number, kind, comment, keyed = about
        if kind not in ("r", "p"):
            raise SinkError(f'"{name}" in schema "{self.schema}" is no table', hint="Name the query otherwise.")
        columns = dict(connection.execute(_COLUMNS, (number,)).fetchall())
        return FoundTable(columns, str(comment or "").startswith(_OURS), bool(keyed))

    def _make(self, connection: Connection[Any], name: str, query: str, types: Mapping[str, str]) -> None:
        """Make a table."""
        sql = driver("psycopg.sql")
        columns = [sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(kind)) for n, kind in types.items()]
        table = sql.Identifier(self.schema, name)
        listed = sql.SQL(", ").join(columns)
        connection.execute(sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))").format(table, listed, sql.Identifier(KEY)))
        comment = sql.Literal(_OURS + query.replace("\0", "\ufffd"))
        connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(table, comment))
        if name != identifier(query, (PROGRESS,)):
            what = f'answers of query "{query}" do not fit those before: they go to table "{name}" from now on'
            LOG.warning(what, extra={"event": "sink folder", "query": query, "sink": f"postgres {self.schema}"})

    def _add(self, connection: Connection[Any], name: str, types: Mapping[str, str]) -> None:
        """Add columns to a table."""
        sql = driver("psycopg.sql")
        for column, kind in types.items():
            parts = sql.Identifier(self.schema, name), sql.Identifier(column), sql.SQL(kind)
            connection.execute(sql.SQL("ALTER TABLE {} ADD COLUMN {} {}").format(*parts))

    def _unfit(self, name: str, why: str, types: Mapping[str, str]) -> SinkError:
        """Say why answers cannot go to a table that somebody else made."""
        wanted = ", ".join(f'"{column}" {kind}' for column, kind in types.items())
        return SinkError(
            f'answers do not fit table "{name}" in schema "{self.schema}": {why}',
            detail=f"wanted: {wanted}, primary key {KEY}",
            hint="Rename that table, and Penstock makes one that fits; or make it so.",
        )


def _places(first: str) -> Iterator[str]:
    """Name the tables of a query, one after the other."""
    yield first
    number = 2
    while True:
        end = f"~{number}"
        yield first.encode()[: LONGEST_NAME - len(end)].decode(errors="ignore") + end
        number += 1


_TABLE: Final = """
    SELECT c.oid, c.relkind::text, obj_description(c.oid, 'pg_class'), EXISTS (
        SELECT 1 FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = c.oid AND i.indisunique AND i.indnkeyatts = 1 AND i.indpred IS NULL
        AND a.attname = 'penstock_key')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_COLUMNS: Final = """
    SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
"""
