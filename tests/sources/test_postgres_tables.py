"""Streams are joined with what a table of Postgres holds now, or held when it could last be read."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import SourceError
from penstock.model.schema import Column, Table
from penstock.project.folder import read_project
from penstock.sources.registry import check_source, found_columns
from penstock.spark.sources.postgres_tables import PostgresTables
from penstock.spark.sources.reading import read_batch, table_version, with_columns
from penstock.testing import TestBed
from tests.postgres_server import Server
from tests.project.making import write_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
QUOTED = '"shop ""x"".T%s"'
ADDRESS = "postgresql://h/d"


def run(server: Server, text: str) -> None:
    with psycopg.connect(server.address) as connection:
        connection.execute(text)


def table(server: Server, name: str, columns: tuple[Column, ...] = ()) -> Table:
    return Table("t", columns, "postgres", {"database": server.address, "table": name, "refresh_seconds": "1"})


def make_names(server: Server, columns: str, values: str = "") -> None:
    rows = f"; INSERT INTO names VALUES {values}" if values else ""
    run(server, f"DROP TABLE IF EXISTS names; CREATE TABLE names ({columns}){rows}")


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock of those that look at tables, to be set by hand."""
    found = [100.0]
    monkeypatch.setattr(PostgresTables, "clock", lambda _: found[0])
    return found


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"database": "postgresql://me:pass-word@h/d"}, "has a password in it"),
        ({"database": "no address pass-word"}, "its database must be an address such as postgresql://host/database"),
        ({"refresh_seconds": "0"}, "refresh_seconds must be a whole number"),
        ({"tabel": "x"}, 'postgres has no option "tabel"'),
        ({"table": ""}, "has no table"),
    ],
)
def test_options_that_cannot_be_are_told_without_passwords(options: dict[str, str], told: str, tmp_path: Path) -> None:
    given = {"database": ADDRESS, "table": "t"} | options
    with pytest.raises(SourceError, match=told) as refused:
        check_source(Table("t", (Column("k", "string"),), "postgres", given))
    assert "pass-word" not in str(refused.value)
    written = ", ".join(f"{name}: '{value}'" for name, value in given.items())
    entry = f"{{format: postgres, options: {{{written}}}, columns: {{k: STRING}}}}"
    text = f"streams:\n  o: {{format: trades, time: ts}}\ntables:\n  t: {entry}\n"
    problems = [str(problem).split("\n")[0] for problem in read_project(write_project(tmp_path, text)).problems]
    if options != {"table": ""}:
        assert told in problems[0]
        assert "pass-word" not in problems[0]


def test_a_stream_is_not_read_from_postgres(tmp_path: Path) -> None:
    text = f"streams:\n  s: {{format: postgres, options: {{database: '{ADDRESS}', table: t}}, time: ts}}\n"
    (problem,) = read_project(write_project(tmp_path, text)).problems
    assert 'cannot be "postgres"' in str(problem)


def test_columns_and_values_are_those_of_the_database(spark: SparkSession, postgres: Server) -> None:
    columns = """b boolean, s smallint, i integer, l bigint, r real, d double precision, n numeric(10, 2), m numeric,
        t text, v varchar(9), y bytea, a date, z timestamptz, w timestamp, j jsonb, u uuid, "odd ""name %s" int"""
    run(postgres, f"DROP TABLE IF EXISTS {QUOTED}; CREATE TABLE {QUOTED} ({columns})")
    moment = "'2026-01-05 12:00:00.000001+00'"
    values = f"""true, 1, 2, {1 << 62}, 1.5, 'NaN', 1.25, 0.1, 'x''\\', 'v', '\\x00ff', '2026-01-05',
        {moment}, {moment}, '{{"a": 1}}', '00000000-0000-0000-0000-000000000001', 3"""
    infinite = "'-infinity', 'infinity', 'infinity'"
    nulls = f"{'NULL, ' * 7}'NaN', {'NULL, ' * 3}{infinite}, NULL, NULL, NULL"
    run(postgres, f"INSERT INTO {QUOTED} VALUES ({values}), ({nulls})")
    item = table(postgres, QUOTED)
    whole = with_columns(spark, item)
    assert isinstance(whole, Table)
    assert found_columns(item) == whole.columns
    types = {c.name: c.type for c in whole.columns}
    assert (types["m"], types["n"], types["j"], types["w"]) == (
        "decimal(38,18)",
        "decimal(10,2)",
        "string",
        "timestamp_ntz",
    )
    usual, empty = sorted(read_batch(spark, whole, print).collect(), key=lambda row: row["i"] is None)
    assert list(usual)[:5] == [True, 1, 2, 1 << 62, 1.5]
    assert usual["d"] != usual["d"]
    assert list(usual)[6:11] == [Decimal("1.25"), Decimal("0.1"), "x'\\", "v", b"\x00\xff"]
    assert usual["a"] == date(2026, 1, 5)
    assert usual["z"].astimezone(UTC) == datetime(2026, 1, 5, 12, 0, 0, 1, tzinfo=UTC)
    assert usual["w"] == datetime(2026, 1, 5, 12, 0, 0, 1)
    assert list(usual)[14:] == ['{"a": 1}', "00000000-0000-0000-0000-000000000001", 3]
    assert set(empty) == {None}


def test_a_version_changes_when_rows_do_and_is_looked_at_now_and_then(
    spark: SparkSession, postgres: Server, seconds: list[float]
) -> None:
    run(
        postgres, "DROP TABLE IF EXISTS names; CREATE TABLE names (k int, name text); INSERT INTO names VALUES (1, 'a')"
    )
    item = table(postgres, "public.names", (Column("k", "int"), Column("name", "string")))

    def rows() -> list[Any]:
        return sorted(map(tuple, read_batch(spark, item, print).collect()))

    first = table_version(item)
    run(postgres, "UPDATE names SET name = 'b'")
    assert (table_version(item), rows()) == (first, [(1, "a")])  # not a second has passed
    seconds[0] += 1
    second = table_version(item)
    assert second != first
    assert rows() == [(1, "b")]
    run(postgres, "INSERT INTO names VALUES (2, NULL); DELETE FROM names WHERE k = 2")
    seconds[0] += 1
    assert table_version(item) == second
    run(postgres, "UPDATE names SET name = 'a'")
    seconds[0] += 1
    assert table_version(item) == first


def test_a_database_that_is_down_is_joined_as_it_was(
    spark: SparkSession, postgres: Server, seconds: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    run(
        postgres,
        "DROP TABLE IF EXISTS names; CREATE TABLE names (k text, name text); INSERT INTO names VALUES ('a', 'A')",
    )
    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, k STRING")
        options = f"database = '{postgres.address}', table = 'names', refresh_seconds = 1"
        bed.engine.execute(f"CREATE TABLE names USING postgres OPTIONS ({options})")
        bed.query("n", "SELECT name, count(*) AS n FROM s [RANGE 2 s SLIDE 2 s] JOIN names USING (k) GROUP BY name")
        bed.feed("s", [{"ts": 0, "k": "a"}])
        run(postgres, "UPDATE names SET name = 'B'; INSERT INTO names VALUES ('c', 'C')")
        seconds[0] += 1
        bed.feed("s", [{"ts": 2, "k": "a"}, {"ts": 3, "k": "c"}])
        postgres.stop("immediate")
        try:
            seconds[0] += 1
            bed.feed("s", [{"ts": 4, "k": "c"}])
            assert "rows are joined with what it held" in caplog.text
            other = table(postgres, "other", (Column("k", "int"),))
            with pytest.raises(SourceError, match='table "t" cannot be read: Postgres at'):
                table_version(other)
        finally:
            postgres.start()
        bed.flush()
        assert [(a["name"], a["n"]) for a in bed.answers("n")] == [("A", 1), ("B", 1), ("C", 1), ("C", 1)]


def test_a_column_or_table_that_is_not_there_is_told_with_those_that_are(spark: SparkSession, postgres: Server) -> None:
    make_names(postgres, "k int, name text")
    with pytest.raises(SourceError, match='has no column "nam" in Postgres') as refused:
        table_version(table(postgres, "names", (Column("nam", "string"),)))
    assert refused.value.detail == "existing columns: k, name"
    with pytest.raises(SourceError, match=r"gives no column of type array<int>"):
        table_version(table(postgres, "names", (Column("k", "array<int>"),)))
    with pytest.raises(SourceError, match='relation "nobody" does not exist'):
        with_columns(spark, table(postgres, "nobody"))
