"""Each answer is in its query's table once, as it stands now, whatever happens to the server or the state folder."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import EnvironmentProblem, SinkError
from penstock.project.folder import read_project
from penstock.sinks.outlet import Outlet
from penstock.sinks.postgres.binary import HEAD, TAIL, copy_rows, type_of
from penstock.sinks.postgres.names import identifier
from penstock.sinks.protocol import KeyedTables
from tests.postgres_server import Server
from tests.project.making import TRADES, write_project
from tests.sinks.remembering import Died, Remembering, answers
from tests.sinks.values import HOSTILE, START, every_type

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
NUMBERS = iter(range(1, 1000))


class Base:
    """A schema of the test's own."""

    def __init__(self, server: Server) -> None:
        self.server, self.schema = server, f"test {next(NUMBERS)}"

    def sink(self, **settings: Any) -> ps.PostgresSink:
        return ps.PostgresSink(self.server.address, schema=self.schema, **settings)

    def rows(self, table: str, columns: str = "*", order: str = "1") -> list[Any]:
        quoted = table.replace('"', '""')
        with psycopg.connect(self.server.address) as connection:
            text = f'SELECT {columns} FROM "{self.schema}"."{quoted}" ORDER BY {order}'
            return list(connection.execute(text).fetchall())

    def tables(self) -> list[str]:
        with psycopg.connect(self.server.address) as connection:
            text = (
                "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'penstock_progress' ORDER BY 1"
            )
            return [name for (name,) in connection.execute(text, [self.schema])]

    def run(self, text: str) -> None:
        with psycopg.connect(self.server.address) as connection:
            connection.execute(f'SET search_path = "{self.schema}"')
            connection.execute(text)


@pytest.fixture
def base(postgres: Server) -> Base:
    return Base(postgres)


def test_values_of_every_type_are_read_back(base: Base) -> None:
    base.sink().open("s", Remembering()).deliver(0, [every_type()])
    names = [name for name in every_type().column_names if name != "query_name"]
    found = base.rows("q", ", ".join(f'"{name}"' for name in names), "window_end")
    usual, odd, null = (dict(zip(names, row, strict=True)) for row in found)
    text = HOSTILE  # it has no zero bytes; those are replaced
    assert usual["window_end"] == START
    assert usual["query_version"] == 1
    assert usual["amount"] == Decimal("12345678901234567890.123456789")
    assert odd["amount"] == Decimal("-0.000000001")
    assert (usual["yes"], usual["tiny"], usual["single"], usual["text"], usual["bytes"]) == (True, 1, 1.5, "", b"")
    assert (odd["large"], odd["single"], odd["text"], odd["bytes"]) == ((1 << 63) - 1, float("inf"), text, b"\x00\xff")
    assert odd["x"] != odd["x"]
    assert (usual["day"], odd["day"]) == (date(2026, 1, 5), date(1, 1, 1))
    assert odd["at"] == datetime(1, 1, 1, tzinfo=UTC)
    assert odd["local"] == datetime(9999, 12, 31, 23, 59, 59, 999999)
    assert odd["took"] == timedelta(days=-3, microseconds=1)
    assert (usual["list"], odd["list"]) == ([1, None], [])
    assert (usual["pair"], usual["map"]) == ({"a": 1, "b": HOSTILE}, [["k", 1.5]])
    assert usual["deep"] == [{"a": 1, "b": "x"}]
    assert {name for name in names if null[name] is not None} == {"query_version", "window_start", "window_end"}


def test_what_postgres_cannot_hold_becomes_what_is_nearest(base: Base) -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")])
    name = pa.array(["q"]).dictionary_encode()
    far = {
        "zero": pa.array(["a\0b"]),
        "broken": broken,
        "nested": pa.array([[{"t": "\0\\u0000"}]]),
        "early": pa.array([-(1 << 63)], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "late": pa.array([(1 << 63) - 1], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "day": pa.array([2_147_483_647], pa.int32()).cast(pa.date32()),
    }
    base.sink().open("s", Remembering()).deliver(0, [pa.table({"query_name": name} | far)])
    [row] = base.rows("q", "zero, broken, nested, early::text, late::text, day::text")
    assert row == (
        "a\ufffdb",
        "a\ufffd",
        [{"t": "\ufffd\\u0000"}],
        "-infinity",
        "294247-01-10 04:00:54.775807+00",
        "infinity",
    )


@given(st.lists(st.one_of(st.none(), st.decimals(allow_nan=False, allow_infinity=False, places=11)), min_size=1))
def test_decimals_are_what_postgres_reads(postgres: Server, values: list[Decimal | None]) -> None:
    known = [value if value is None or abs(value) < Decimal(10) ** 25 else Decimal(7) for value in values]
    column = pa.array(known, pa.decimal128(38, 11))
    with psycopg.connect(postgres.address) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE d (n serial, v numeric)")
        with cursor.copy("COPY d (v) FROM STDIN (FORMAT BINARY)") as copying:
            for piece in (HEAD, *copy_rows([(type_of(column.type), column)]), TAIL):
                copying.write(piece)
        found = [value for (value,) in cursor.execute("SELECT v FROM d ORDER BY n")]
    assert found == known
    assert all(v is None or v.as_tuple().exponent == -11 for v in found)


# -- revised answers ---------------------------------------------------------------------------------------------------


def revised(*said: tuple[str, int, int | None, str, int], query: str = "q") -> KeyedTables:
    """Say of groups (their key, the window, a value) that it is answered, revised or taken back."""
    names = pa.array([query] * len(said)).dictionary_encode()
    ends = pa.array([START + timedelta(minutes=window) for _, window, *_ in said], pa.timestamp("us", "UTC"))
    table = pa.table({
        "query_name": names,
        "query_version": pa.array([1] * len(said), pa.int32()),
        "window_end": ends,
        "revision": pa.array([revision for *_, revision in said], pa.int32()),
        "op": [op for *_, op, _ in said],
        "n": pa.array([n for _, _, n, *_ in said], pa.int64()),
    })  # fmt: skip
    return KeyedTables([table], [pa.table({"#k0": pa.array([key or None for key, *_ in said], pa.string())})])


def test_a_table_holds_what_stands_now_by_groups_that_select_leaves_out(base: Base) -> None:
    writer = base.sink().open("s", Remembering())
    writer.deliver(0, revised(("a", 0, 1, "answer", 0), ("", 0, 2, "answer", 0), ("a", 1, 3, "answer", 0)))
    writer.deliver(1, revised(("a", 0, 4, "revise", 1), ("", 0, 2, "retract", 1)))
    assert base.rows("q", "n, revision, op") == [(3, 0, "answer"), (4, 1, "revise")]
    writer.deliver(2, revised(("", 0, 5, "revise", 2), ("a", 1, 6, "revise", 1), ("a", 1, 7, "revise", 2)))
    assert base.rows("q", "n, revision") == [(4, 1), (5, 2), (7, 2)]


# -- once --------------------------------------------------------------------------------------------------------------


def test_a_batch_that_was_committed_and_not_recorded_is_there_once(base: Base) -> None:
    memory, sink = Remembering(), base.sink()
    writer = sink.open("s", memory)
    writer.deliver(0, [answers(1, 2)])
    memory.dies = True
    with pytest.raises(Died):
        writer.deliver(1, [answers(3, 4)])
    assert base.rows("q", "n") == [(1,), (2,), (3,), (4,)]
    writer = sink.open("s", memory)
    assert writer.delivered == 0
    writer.deliver(1, [answers(3), answers(4)])
    writer.deliver(2, [answers(5)])
    assert base.rows("q", "n") == [(1,), (2,), (3,), (4,), (5,)]
    assert sink.open("s", memory).delivered == 2


def test_a_state_folder_that_was_restored_takes_back_what_came_after(base: Base) -> None:
    memory, sink = Remembering(), base.sink()
    writer = sink.open("s", memory)
    for number in range(4):
        writer.deliver(number, [answers(number, number + 10), answers(number, query="p")])
    other = Remembering()
    other.owner = "another"
    sink.open("s", other).deliver(3, [answers(77)])
    memory.progress = {"delivered": 0}
    writer = sink.open("s", memory)
    writer.deliver(1, [])  # batches are cut otherwise than before
    assert base.rows("q", "n") == [(0,), (10,), (77,)]
    writer.deliver(2, [answers(1)])
    assert base.rows("q", "n") == [(0,), (1,), (10,), (77,)]
    assert base.rows("p", "n") == [(0,)]


def test_a_database_that_lost_its_tables_gets_what_the_log_has(base: Base) -> None:
    memory, sink = Remembering(), base.sink()
    sink.open("s", memory).deliver(0, [answers(1)])
    base.run(f'DROP SCHEMA "{base.schema}" CASCADE')
    assert sink.open("s", memory).delivered == -1


def test_a_process_believed_dead_does_not_write_over_its_successor(base: Base) -> None:
    memory, sink = Remembering(), base.sink()
    believed_dead = sink.open("s", memory)
    believed_dead.deliver(0, [answers(1)])
    successor = sink.open("s", memory)
    successor.deliver(1, [answers(2)])
    with pytest.raises(SinkError, match="another engine, or another sink, writes"):
        believed_dead.deliver(1, [answers(2)])
    assert base.rows("q", "n") == [(1,), (2,)]


def test_a_connection_that_the_server_has_ended_is_made_anew(base: Base) -> None:
    writer = base.sink().open("s", Remembering())
    writer.deliver(0, [answers(1)])
    base.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock'")
    writer.deliver(1, [answers(2)])
    assert base.rows("q", "n") == [(1,), (2,)]


def test_a_server_that_is_down_is_tried_again(base: Base) -> None:
    sink, batches = base.sink(), [(0, [answers(0)])]
    outlet = Outlet("p", sink, "s", Remembering(), lambda after: iter(batches[after + 1 :]), lambda: 0)
    outlet.attempt()
    base.server.stop("immediate")
    batches += [(1, [answers(1)]), (2, [answers(2)])]
    try:
        outlet.deliver(*batches[1])
        assert outlet.failing is not None
        assert "Postgres at 127.0.0.1" in outlet.failing.error.what
        outlet.attempt(1 << 60)
        assert outlet.failing.attempts == 2
    finally:
        base.server.start()
    outlet.attempt(1 << 60)
    assert outlet.failing is None
    assert base.rows("q", "n") == [(0,), (1,), (2,)]


# -- tables ------------------------------------------------------------------------------------------------------------


def test_names_are_told_apart_whatever_they_are(base: Base) -> None:
    long = "x" * 70
    names = ["Flow", "flow", 'a"; DROP TABLE q; --', "é" * 31, long, long + "y", "penstock_progress", identifier(long),
             "a~2", "select", " "]  # fmt: skip
    writer = base.sink().open("s", Remembering())
    writer.deliver(0, [answers(place, query=name) for place, name in enumerate(names)])
    assert len(base.tables()) == len(names)
    assert [base.rows(identifier(name, ("penstock_progress",)), "n") for name in names] == [
        [(n,)] for n, _ in enumerate(names)
    ]
    assert {"Flow", "flow", 'a"; DROP TABLE q; --', "é" * 31, "select", " "} <= set(base.tables())


def test_columns_are_named_as_the_query_has_them(base: Base) -> None:
    names = ["n", "N", 'a"b', "ctid", "penstock_key", "select", "c" * 80, "%s", "{x}"]
    one = pa.array(["q"]).dictionary_encode()
    writer = base.sink().open("s", Remembering())
    writer.deliver(0, [pa.table([one, *([place] for place, _ in enumerate(names))], names=["query_name", *names])])
    [row] = base.rows("q")
    assert list(row[1:]) == list(range(len(names)))


def test_a_query_that_was_altered_goes_on_in_its_table_or_in_another_one(base: Base) -> None:
    writer = base.sink().open("s", Remembering())
    writer.deliver(0, [answers(1)])
    writer.deliver(1, [answers(2, column="m")])  # one column gone, another one new
    writer.deliver(2, [answers(3).set_column(1, "n", pa.array(["three"]))])  # another type
    writer.deliver(3, [answers(4)])
    assert base.rows("q", "n, m", "n, m") == [(1, None), (4, None), (None, 2)]
    assert base.rows("q~2", "n") == [("three",)]


def test_a_table_of_somebody_else_is_used_if_it_fits_and_refused_with_what_it_should_be(base: Base) -> None:
    base.sink().open("s", Remembering())  # makes the schema
    base.run("CREATE TABLE q (penstock_key uuid PRIMARY KEY, n bigint, note text DEFAULT 'mine')")
    base.run("CREATE TABLE p (n integer)")
    base.run("CREATE VIEW v AS SELECT 1 AS n")
    writer = base.sink().open("s", Remembering())
    writer.deliver(0, [answers(1)])
    assert base.rows("q", "n, note") == [(1, "mine")]
    for query, told in (("p", '"n" is integer, not bigint'), ("v", "is no table")):
        with pytest.raises(SinkError, match=told):
            base.sink().open("t", Remembering()).deliver(0, [answers(1), answers(1, query=query)])
    assert base.rows("q", "n") == [(1,)]  # all of a batch or nothing


def test_only_the_queries_that_are_asked_for_are_written(base: Base) -> None:
    writer = base.sink(queries="p, r").open("s", Remembering())
    writer.deliver(0, [answers(1), answers(2, query="p")])
    assert base.tables() == ["p"]


# -- settings ----------------------------------------------------------------------------------------------------------


def test_an_address_that_is_none_is_told_with_its_line_and_without_its_password(tmp_path: Path) -> None:
    text = f"{TRADES}\nsinks:\n  - postgres: ${{DB}}\n"
    with pytest.MonkeyPatch.context() as environment:
        for address in ("postgresql://me:pass-word@[::1/x", "no address pass-word", "postgresql://me:pass-word@host/"):
            environment.setenv("DB", address)
            (problem,) = read_project(write_project(tmp_path, text)).problems
            assert "the database of the postgres sink must be an address such as" in str(problem)
            assert "pass-word" not in str(problem)
        environment.setenv("DB", "postgresql://me:pass-word@db.example:5433/shop")
        project = read_project(write_project(tmp_path, text))
        assert project.problems == ()
        sink: Any = project.settings.sinks[0].make()
        assert "db.example:5433/shop" in repr(sink)
        assert "pass-word" not in f"{sink!r} {project.settings.sinks[0].shown()} {sink.place}"


def test_a_driver_that_is_missing_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr("penstock.sources.postgres_database.import_module", missing)
    (problem,) = read_project(write_project(tmp_path, f"{TRADES}\nsinks:\n  - postgres: postgresql://h/d\n")).problems
    assert 'pip install "penstock[postgres]"' in str(problem)
    with pytest.raises((SinkError, EnvironmentProblem), match="psycopg"):
        ps.PostgresSink("postgresql://h/d")
