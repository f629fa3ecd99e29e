"""Writes answers to a table for each query, and how far it came in the same transaction: each is there once."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SinkError
from penstock.sinks.json_lines import json_lines
from penstock.sinks.parquet_by_query import each_query_keyed
from penstock.sinks.postgres.binary import HEAD, TAIL, UUID, copy_rows, type_of
from penstock.sinks.postgres.tables import KEY, PROGRESS, AnswerTables, columns_of_answers
from penstock.sinks.protocol import Progressing
from penstock.sinks.recorded import RecordedWriter
from penstock.sinks.settings import TextForm, chosen_names
from penstock.sources.postgres_database import check_address, connected, driver, refusal, shown_address
from penstock.store.faults import reached

if TYPE_CHECKING:
    from psycopg import Connection

_KEY_BYTES: Final = 16
_STREAM_BYTES: Final = 8  # of a key, of answers that are never revised: state and stream, then batch and place


class PostgresSink:
    """Writes each query's answers to a table of its name; those that are revised stand as they are now.

    Exactly once: how far it came is in the database, in the transaction of the answers. See docs/postgres.md.
    """

    kind = "postgres"

    def __init__(
        self,
        database: Annotated[str, TextForm("postgresql://user:password@host/database", check_address, secret=True)],
        *,
        schema: Annotated[str, TextForm("schema of the tables")] = "public",
        queries: Annotated[str, TextForm("names of queries with commas between them; all if left out")] = "",
    ) -> None:
        """Write to a database."""
        if (wrong := check_address(database)) is not None:
            raise SinkError(f"the database of the postgres sink {wrong}")
        self.database, self.schema, self.queries = database, schema, queries
        self.place = f"{shown_address(database)} {schema}"
        self._names = chosen_names(queries)

    def __repr__(self) -> str:
        """Show it without its password."""
        return f"PostgresSink({self.place})"

    def open(self, stream: str, memory: Progressing) -> PostgresWriter:
        """Open the writer of one stream."""
        return PostgresWriter(self, stream, memory)

    def wants(self, query: str) -> bool:
        """Tell whether answers of a query are written."""
        return not self._names or query.lower() in self._names


class PostgresWriter(RecordedWriter):
    """Writes one stream's answers, a transaction for each batch."""

    def __init__(self, sink: PostgresSink, stream: str, memory: Progressing) -> None:
        """Go on behind what both the database and the state folder know."""
        super().__init__(memory)
        self.sink, self.stream, self.tables = sink, stream, AnswerTables(sink.schema)
        self._connection = self._connected()
        self._held = self._prepare()
        self._delivered = min(self._held, self._delivered)

    def __del__(self) -> None:
        """Let go of the connection: a writer that fails is forgotten, and another one is opened."""
        if hasattr(self, "_connection"):
            self._connection.close()

    def deliver(self, number: int, tables: Sequence[pa.Table]) -> None:
        """Write a batch's answers and its number in one transaction."""
        if number <= self._delivered:
            return
        if len(tables) or self._held > self._delivered:
            reached("sink.postgres.before")
            self._reconnect()
            with self._transaction() as connection:
                self._advance(connection, number)
                self._write(connection, number, tables)
                reached("sink.postgres.torn")
            self._held = number
            reached("sink.postgres.after")
        self.memory.write({"delivered": number})
        self._delivered = number

    def roll(self) -> None:
        """Do nothing: what is committed is visible."""

    @contextmanager
    def _transaction(self) -> Iterator[Connection[Any]]:
        """Do something in one transaction, and word what Postgres refuses."""
        try:
            with self._connection.transaction():
                yield self._connection
        except driver().Error as error:
            raise self._refused(error) from None

    def _connected(self) -> Connection[Any]:
        """Connect."""
        try:
            connection = connected(self.sink.database)
            connection.autocommit = True  # but for the transactions below
        except driver().Error as error:
            raise self._refused(error) from None
        return connection

    def _reconnect(self) -> None:
        """Connect anew if the server has ended the connection since the last batch, as it may do with idle ones."""
        try:
            self._connection.execute("SELECT 1")
        except driver().OperationalError:
            self._connection.close()
            self._connection = self._connected()

    def _refused(self, error: Exception) -> SinkError:
        """Word what Postgres, or the way to it, refused."""
        what, detail = refusal(self.sink.database, error)
        return SinkError(what, detail=detail)

    def _prepare(self) -> int:
        """Make sure that the schema and its table of progress are there; return how far it says this stream came."""
        sql = driver("psycopg.sql")
        schema = sql.Identifier(self.sink.schema)
        with self._transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(7164018)")  # who makes them, if several come at once
            if connection.execute("SELECT to_regnamespace(quote_ident(%s))", (self.sink.schema,)).fetchone() == (None,):
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
            connection.execute(sql.SQL(_MAKE_PROGRESS).format(self._progress))
            found = connection.execute(sql.SQL(_READ_PROGRESS).format(self._progress), self._mine).fetchone()
        return -1 if found is None else int(found[0])

    @property
    def _progress(self) -> Any:
        """Name the table of progress."""
        return driver("psycopg.sql").Identifier(self.sink.schema, PROGRESS)

    @property
    def _mine(self) -> tuple[str, str]:
        """Name the state folder and the stream."""
        return self.memory.owner, self.stream

    def _advance(self, connection: Connection[Any], number: int) -> None:
        """Write how far the stream comes; whoever else wrote meanwhile, as a process believed dead may, is heeded."""
        sql = driver("psycopg.sql")
        text = _BEGIN_PROGRESS if self._held < 0 else _ADVANCE_PROGRESS
        told = {"state": self.memory.owner, "stream": self.stream, "number": number, "before": self._held}
        if connection.execute(sql.SQL(text).format(self._progress), told).rowcount != 1:
            raise SinkError(
                f'another engine, or another sink, writes answers of stream "{self.stream}" to {self.sink.place}',
                hint="Two sinks of one engine need a schema each; of two engines, each needs a state folder.",
            )
        if self._held > self._delivered:
            self._take_back(connection)

    def _take_back(self, connection: Connection[Any]) -> None:
        """Remove what is behind the state folder's record: it comes again, maybe cut otherwise, as after a restore."""
        sql = driver("psycopg.sql")
        first, last = (self._key(number, 0) for number in (self._delivered + 1, (1 << 32) - 1))
        for (name,) in connection.execute(_ANSWER_TABLES, (self.sink.schema, KEY)).fetchall():
            named = sql.Identifier(self.sink.schema, name), sql.Identifier(KEY)
            connection.execute(sql.SQL(_TAKE_BACK).format(*named), (first.hex(), last.hex()))

    def _write(self, connection: Connection[Any], number: int, tables: Sequence[pa.Table]) -> None:
        """Write answers, query by query; those that may be revised over those before them."""
        places = {"": count()}
        for query, rows, keys in each_query_keyed(tables):
            if not self.sink.wants(query) or not rows.num_rows:
                continue
            table = self.tables.of(connection, query, rows.schema)
            if keys is None:
                counted = places.setdefault(query, count())
                told = [self._key(number, next(counted)) for _ in range(rows.num_rows)]
                self._copy(connection, (self.sink.schema, table), rows, told)
            else:
                self._revise(connection, table, *_last_of_each(rows, self._group_keys(query, rows, keys)))

    def _key(self, number: int, place: int) -> bytes:
        """Name an answer that is never revised: by state and stream, batch, and place among the query's."""
        told = "\0".join(self._mine).encode()
        return hashlib.blake2b(told, digest_size=_STREAM_BYTES).digest() + struct.pack("!II", number, place)

    def _group_keys(self, query: str, rows: pa.Table, keys: pa.Table) -> list[bytes]:
        """Name answers by definition, window and group: what is said of a group anew has the name of before."""
        about = rows.select(["query_version", "window_end"])
        for name, column in zip(keys.column_names, keys.columns, strict=True):
            plain = pc.add(column, 0.0) if pa.types.is_floating(column.type) else column  # −0.0 is 0.0
            about = about.append_column(name, plain)
        told = "\0".join((*self._mine, query)).encode()
        lines = bytes(json_lines(about)).split(b"\n")[: rows.num_rows]
        return [
            hashlib.blake2b(line, digest_size=_KEY_BYTES, key=hashlib.sha256(told).digest()).digest() for line in lines
        ]

    def _copy(self, connection: Connection[Any], table: Sequence[str], rows: pa.Table, keys: Sequence[bytes]) -> None:
        """Copy rows into a table."""
        sql, named = driver("psycopg.sql"), columns_of_answers(rows.schema)
        listed = sql.SQL(", ").join(map(sql.Identifier, (KEY, *named)))
        text = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(sql.Identifier(*table), listed)
        columns = [(UUID, pa.array(keys, pa.binary())), *((type_of(rows[n].type), rows[n]) for n in named.values())]
        with connection.cursor() as cursor, cursor.copy(text) as copying:
            copying.write(HEAD)
            for piece in copy_rows(columns):
                copying.write(piece)
            copying.write(TAIL)

    def _revise(self, connection: Connection[Any], table: str, rows: pa.Table, keys: Sequence[bytes]) -> None:
        """Put answers over those of before, and take away those that fall away."""
        sql = driver("psycopg.sql")
        target, new, key = sql.Identifier(self.sink.schema, table), sql.Identifier("pg_temp", _NEW), sql.Identifier(KEY)
        names = [sql.Identifier(name) for name in columns_of_answers(rows.schema)]
        connection.execute(
            sql.SQL("CREATE TEMP TABLE {} (LIKE {}) ON COMMIT DROP").format(sql.Identifier(_NEW), target)
        )
        self._copy(connection, ("pg_temp", _NEW), rows, keys)
        given = {"target": target, "new": new, "key": key, "columns": sql.SQL(", ").join(names)}
        given["set"] = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in names)
        for text in (_TAKE_AWAY, _PUT_OVER, "DROP TABLE {new}"):
            connection.execute(sql.SQL(text).format(**given))


def _last_of_each(rows: pa.Table, keys: Sequence[bytes]) -> tuple[pa.Table, list[bytes]]:
    """Keep what is said last under each key."""
    last = {key: place for place, key in enumerate(keys)}
    if len(last) == len(keys):
        return rows, list(keys)
    places = sorted(last.values())
    return rows.take(pa.array(places)), [keys[place] for place in places]


_NEW: Final = "penstock_new"
_MAKE_PROGRESS: Final = """
    CREATE TABLE IF NOT EXISTS {} (state text, stream text, delivered bigint NOT NULL, PRIMARY KEY (state, stream))
"""
_READ_PROGRESS: Final = "SELECT delivered FROM {} WHERE state = %s AND stream = %s"
_BEGIN_PROGRESS: Final = "INSERT INTO {} VALUES (%(state)s, %(stream)s, %(number)s) ON CONFLICT DO NOTHING"
_ADVANCE_PROGRESS: Final = """
    UPDATE {} SET delivered = %(number)s WHERE state = %(state)s AND stream = %(stream)s AND delivered = %(before)s
"""
_ANSWER_TABLES: Final = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
    WHERE n.nspname = %s AND c.relkind IN ('r', 'p') AND a.attname = %s
"""
_TAKE_BACK: Final = "DELETE FROM {0} WHERE {1} BETWEEN %s::uuid AND %s::uuid"
_TAKE_AWAY: Final = "DELETE FROM {target} USING {new} WHERE {target}.{key} = {new}.{key} AND {new}.op = 'retract'"
_PUT_OVER: Final = """
    INSERT INTO {target} ({key}, {columns}) SELECT {key}, {columns} FROM {new} WHERE op <> 'retract'
    ON CONFLICT ({key}) DO UPDATE SET {set}
"""
