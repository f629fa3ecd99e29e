"""Loads the driver of Postgres, connects, and words what goes wrong, without passwords: for tables and for sinks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import EnvironmentProblem

if TYPE_CHECKING:
    from psycopg import Connection

CONNECT_S: Final = 10
_SILENT_MS: Final = 60_000  # without an acknowledgement, after which a connection is given up
_EXAMPLE: Final = "postgresql://user:password@host/database"


def driver(module: str = "psycopg") -> Any:
    """Load psycopg, or say how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        hint = 'Run `pip install "penstock[postgres]"`.'
        raise EnvironmentProblem(
            "Postgres needs psycopg, which cannot be loaded", detail=str(error), hint=hint
        ) from None


def check_address(text: str) -> str | None:
    """Say what is wrong with the address of a database, without showing it: a password may be in it."""
    try:
        conninfo = driver("psycopg.conninfo")
    except EnvironmentProblem as error:
        return f"cannot be read: {error.what}; {error.hint}"
    try:
        known = conninfo.conninfo_to_dict(text)
    except driver().Error:
        known = {}
    return None if known.get("dbname") or known.get("service") else f"must be an address such as {_EXAMPLE}"


def shown_address(text: str) -> str:
    """Name a database by host and name alone."""
    known = driver("psycopg.conninfo").conninfo_to_dict(text)
    port = f":{known['port']}" if known.get("port") not in (None, "5432") else ""
    return f"{known.get('host', '')}{port}/{known.get('dbname', known.get('service', ''))}"


def connected(address: str) -> Connection[Any]:
    """Connect to a database; the driver says what fails."""
    known = driver("psycopg.conninfo").conninfo_to_dict(address)
    given = {"connect_timeout": CONNECT_S, "tcp_user_timeout": _SILENT_MS, "application_name": "penstock"} | known
    connection: Connection[Any] = driver().connect(**given)
    return connection


def refusal(address: str, error: Exception) -> tuple[str, str | None]:
    """Word what Postgres, or the way to it, refused: what and in which detail."""
    told = str(error).strip().splitlines() or [type(error).__name__]
    password = driver("psycopg.conninfo").conninfo_to_dict(address).get("password")
    lines = [line.replace(str(password), "***") if password else line for line in told]
    return f"Postgres at {shown_address(address)}: {lines[0]}", "\n".join(lines[1:]) or None
