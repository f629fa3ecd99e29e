"""Loads the driver of Postgres, connects, and words what goes wrong, without passwords."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import EnvironmentProblem, SinkError

if TYPE_CHECKING:
    from psycopg import Connection

LONGEST_NAME: Final = 63  # bytes, beyond which Postgres cuts a name off
CONNECT_S: Final = 10
_SILENT_MS: Final = 60_000  # without an acknowledgement, after which a connection is given up
_MARKED: Final = re.compile(r".*(-[0-9a-f]{16}|~\d+)", re.DOTALL)  # made by :func:`identifier` and for other columns
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
    """Connect to a database."""
    psycopg = driver()
    known = driver("psycopg.conninfo").conninfo_to_dict(address)
    given = {"connect_timeout": CONNECT_S, "tcp_user_timeout": _SILENT_MS, "application_name": "penstock"} | known
    try:
        connection: Connection[Any] = psycopg.connect(**given)
    except psycopg.Error as error:
        raise refused(address, error) from None
    return connection


def refused(address: str, error: Exception) -> SinkError:
    """Word what Postgres, or the way to it, refused."""
    told = str(error).strip().splitlines() or [type(error).__name__]
    password = driver("psycopg.conninfo").conninfo_to_dict(address).get("password")
    lines = [line.replace(str(password), "***") if password else line for line in told]
    return SinkError(f"Postgres at {shown_address(address)}: {lines[0]}", detail="\n".join(lines[1:]) or None)


def identifier(name: str, taken: Collection[str] = ()) -> str:
    """Name a table or column as a query is, or as it names it; a name that cannot be is cut and has a number behind it.

    >>> identifier("Flow per symbol")
    'Flow per symbol'
    >>> identifier("x" * 70)
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-6ffcf929be57e0a7'
    """
    told = name.encode(errors="surrogatepass")
    if 0 < len(told) <= LONGEST_NAME and "\0" not in name and name not in taken and not _MARKED.fullmatch(name):
        return name
    shown = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:40]
    return f"{shown or 'query'}-{hashlib.sha256(told).hexdigest()[:16]}"
