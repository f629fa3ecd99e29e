"""What an engine answers stands in databases as ``results`` has it, whatever becomes of its queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import penstock as ps
from penstock.sinks.delta.columns import column_name
from penstock.sinks.row_values import python_rows
from penstock.testing import TestBed
from tests.postgres_server import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Read = Callable[[str], list[dict[str, Any]]]
PLAIN = ("sums", "Sums per key", "hidden", "rows", "mended")


def live(bed: TestBed) -> None:
    """Let queries of every kind come, change and go."""
    bed.stream("s", "ts TIMESTAMP, k STRING, v INT, d DECIMAL(10, 2)", lateness="1 s")
    bed.query("sums", "SELECT k, sum(v) AS n, max(d) AS `the d`, named_struct('v', max(v)) AS o "
              "FROM s [RANGE 2 s SLIDE 2 s] GROUP BY k")  # fmt: skip
    bed.query("Sums per key", "SELECT k, avg(v) AS n FROM s [RANGE 4 s SLIDE 2 s] GROUP BY k")
    bed.query("hidden", "SELECT count(*) AS n FROM s [RANGE 2 s SLIDE 2 s] GROUP BY k")
    bed.query("rows", "SELECT k, v FROM s WHERE v > 2")
    revised = "HAVING n > 2 WITH (late = 'revise', revise_for = '1 min')"
    bed.query("mended", f"SELECT sum(v) AS n FROM s [RANGE 2 s SLIDE 2 s] GROUP BY k {revised}")
    bed.query("gone", "SELECT count(*) AS n FROM s [RANGE 2 s SLIDE 2 s]")
    keys = ["a", None, "b'\\"]
    bed.feed("s", [{"ts": t, "k": keys[t % 3], "v": t % 5, "d": "1.25"} for t in range(12)])
    bed.engine.drop_query("gone")
    bed.query("gone", "SELECT 'again' AS n, count(*) AS m FROM s [RANGE 2 s SLIDE 2 s]")
    bed.engine.execute("ALTER QUERY rows AS SELECT k, v, v * 2 AS w FROM s WHERE v > 3")
    bed.feed("s", [{"ts": t, "k": keys[t % 3], "v": t % 5, "d": "-0.5"} for t in range(12, 20)])
    bed.feed("s", [{"ts": 3, "k": "a", "v": 4, "d": "0"}, {"ts": 4, "k": None, "v": -9, "d": "0"}])
    bed.feed("s", [{"ts": 5, "k": None, "v": -9, "d": "0"}])
    bed.flush()


def told(rows: list[dict[str, Any]]) -> list[str]:
    plain = ({n: v.astimezone(UTC) if isinstance(v, datetime) else v for n, v in row.items()} for row in rows)
    return sorted(repr(sorted(row.items())) for row in plain)


def check(bed: TestBed, read: Read, *, log: bool = False) -> None:
    """Compare what a sink holds with the results, or with all that was ever said."""
    for name in PLAIN:
        results = python_rows(bed.engine.results(name, revisions=log and name == "mended"))
        assert results, name
        columns = list(results[0])
        rows = read(name)
        newest = max(row["query_version"] for row in rows)  # results of rows are those of the query as it is now
        found = [{column: row.get(column) for column in columns} for row in rows if row["query_version"] == newest]
        assert told(found) == told(results), name


@contextmanager
def engine_with(spark: SparkSession, folder: Path, sink: Any) -> Iterator[TestBed]:
    with TestBed(spark, state=folder / "state", sinks=[sink]) as bed:
        live(bed)
        yield bed


def test_postgres_stands_as_results_do(spark: SparkSession, postgres: Server, tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    rows_of = pytest.importorskip("psycopg.rows")
    with (
        engine_with(spark, tmp_path, ps.PostgresSink(postgres.address, schema="engine")) as bed,
        psycopg.connect(postgres.address, row_factory=rows_of.dict_row) as connection,
    ):
        check(bed, lambda name: list(connection.execute(f'SELECT * FROM engine."{name}"').fetchall()))
        assert connection.execute("SELECT DISTINCT n FROM engine.gone").fetchall() != [{"n": "again"}]
        assert connection.execute('SELECT DISTINCT n FROM engine."gone~2"').fetchall() == [{"n": "again"}]
        revised = connection.execute("SELECT revision FROM engine.mended WHERE op = 'revise'").fetchall()
        assert revised


def test_delta_has_all_that_was_said(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    sink = ps.DeltaSink(tmp_path / "delta", layout="query/day", roll_seconds=0)

    def read(name: str) -> list[dict[str, Any]]:
        rows = python_rows(deltalake.DeltaTable(str(sink.folder_of(name))).to_pyarrow_table())
        return [{"the d": row.get(column_name("the d")), **row} for row in rows]

    with engine_with(spark, tmp_path, sink) as bed:
        check(bed, read, log=True)
        assert {row["n"] for row in read("gone")} != {"again"}
        again = deltalake.DeltaTable(str(tmp_path / "delta" / "gone~2")).to_pyarrow_table()
        assert set(again["n"].to_pylist()) == {"again"}
