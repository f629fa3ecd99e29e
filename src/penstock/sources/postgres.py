"""Describes tables of a Postgres database, which streams may be joined with; the database tells their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.errors import SourceError
from penstock.model.schema import Column, Stream, Table
from penstock.sources.description import Options, SourceFormat, columns_unknown, no_option
from penstock.sources.postgres_database import check_address, connected, driver, refusal

if TYPE_CHECKING:
    from psycopg import Connection

REFRESH_S: Final = 10  # between two looks whether a table has changed
_OPTIONS: Final = ("database", "refresh_seconds", "table")
_TYPES: Final = {
    "boolean": "boolean",
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "real": "float",
    "double precision": "double",
    "numeric": "decimal(38,18)",  # of no precision, as Spark's own reader has it
    "bytea": "binary",
    "date": "date",
    "timestamp with time zone": "timestamp",
    "timestamp without time zone": "timestamp_ntz",
}
_COLUMNS: Final = """
    SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


def _check(owner: str, options: Options) -> None:
    """Refuse options that there are not, and values that cannot be; passwords, too: the catalog keeps options."""
    given = {name.lower(): value for name, value in options.items()}
    for option in options:
        if option.lower() not in _OPTIONS:
            raise no_option(owner, "postgres", option, _OPTIONS)
    if "database" in given:
        _check_database(owner, given["database"])
    refresh = given.get("refresh_seconds", "1")
    if not (refresh.isascii() and refresh.isdigit() and len(refresh) < 10 and int(refresh)):
        raise SourceError(f'"{owner}": refresh_seconds must be a whole number of at least 1, not "{refresh[:40]}"')


def _check_database(owner: str, address: str) -> None:
    """Refuse what is no address of a database, or has a password in it."""
    if (wrong := check_address(address)) is not None:
        raise SourceError(f'"{owner}": its database {wrong}'.replace("user:password@", ""))
    if "password" in driver("psycopg.conninfo").conninfo_to_dict(address):
        raise SourceError(
            f'"{owner}": its database has a password in it, which would be kept with the table',
            hint="Leave it out, and set PGPASSWORD, or name a file of passwords in PGPASSFILE.",
        )


def asked(connection: Connection[Any], item: Stream | Table) -> list[tuple[str, str]]:
    """Ask a database for the columns of a table and their types."""
    found = connection.execute(_COLUMNS, (item.options["table"],)).fetchall()
    return [(str(name), str(kind)) for name, kind in found]


def columns_in_database(item: Stream | Table) -> tuple[Column, ...]:
    """Find the columns of a table, or say why that cannot be; what has no like in Spark is text."""
    for need in ("database", "table"):
        if not item.options.get(need):
            raise columns_unknown(item, f"it has no {need}")
    try:
        with connected(item.options["database"]) as connection:
            found = asked(connection, item)
    except driver().Error as error:
        raise unreadable(item, error) from None
    return tuple(Column(name, _type(kind)) for name, kind in found)


def unreadable(item: Stream | Table, error: Exception) -> SourceError:
    """Word why a table cannot be read."""
    what, detail = refusal(item.options["database"], error)
    return SourceError(f'table "{item.name}" cannot be read: {what}', detail=detail)


def _type(kind: str) -> str:
    """Find the type of a column in Spark."""
    if kind.startswith("numeric(") and "-" not in kind:
        precision, scale = map(int, kind[len("numeric(") : -1].split(","))
        return f"decimal({precision},{scale})" if precision <= 38 and scale <= precision else "string"
    return _TYPES.get(kind, "string")


POSTGRES: Final = SourceFormat(
    "postgres",
    "penstock.spark.sources.postgres_tables:PostgresTables",
    "read from Postgres",
    _OPTIONS,
    needs=("database", "table"),
    tables=True,
    streams=False,
    checking=_check,
    columns=columns_in_database,
)
