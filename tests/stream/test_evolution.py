"""Streams and tables go on with other columns, paths, options and lateness; what cannot go on is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.errors import CatalogError, PenstockError, Unsupported
from penstock.store import faults
from penstock.store.faults import MOMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
SECOND = 1_000_000
START = 1_767_225_600 * SECOND  # 2026-01-01
INSTANT = pa.timestamp("us", "UTC")
OLD = "ts TIMESTAMP, k STRING, v BIGINT"
NEW = f"{OLD}, w BIGINT"


def create(folder: Path, columns: str = OLD, lateness: str = "0 s", head: str = "CREATE STREAM", more: str = "") -> str:
    return (
        f"{head} s ({columns}) USING parquet OPTIONS (path = '{folder}', retain_rows = '1 h'{more}) "
        f"WATERMARK FOR ts AS ts - INTERVAL '{lateness}'"
    )


def rows(seconds: Sequence[int], *, wide: bool) -> pa.Table:
    columns = {
        "ts": pa.array([START + s * SECOND for s in seconds], INSTANT),
        "k": ["ab"[s % 2] for s in seconds],
        "v": pa.array(seconds, pa.int64()),
    }
    return pa.table(columns | ({"w": pa.array([s * 10 for s in seconds], pa.int64())} if wide else {}))


def arrive(folder: Path, name: str, seconds: Sequence[int], *, wide: bool = False) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(rows(seconds, wide=wide), folder / f"{name}.parquet")


def said(engine: ps.Engine, name: str) -> list[tuple[Any, ...]]:
    """Tell each window's end in seconds, and the answer's own columns."""
    found = engine.results(name, "rows")
    return [(int(row["window_end"].timestamp()) - START // SECOND, *list(row.values())[2:]) for row in found]


@pytest.fixture
def opened(spark: SparkSession, tmp_path: Path) -> Iterator[ps.Engine]:
    """Open an engine that has had 20 seconds of rows."""
    arrive(tmp_path / "in", "0", range(20))
    with ps.Engine(tmp_path / "state", spark=spark) as engine:
        engine.execute(create(tmp_path / "in"))
        engine.create_query("n", "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        engine.process_available()
        yield engine


def counted(ends: Sequence[int]) -> list[tuple[int, int, int]]:
    """Tell what n answers."""
    return [(end, 10, sum(range(end - 10, end))) for end in ends]


# -- streams -----------------------------------------------------------------------------------------------------------


def test_a_stream_gains_a_column_and_queries_that_read_it_begin_when_it_is_there(
    opened: ps.Engine, tmp_path: Path
) -> None:
    opened.execute("ALTER STREAM s ADD COLUMN w BIGINT")
    opened.create_query("w", "SELECT count(w) AS n, sum(w) AS x FROM s [RANGE 5 s SLIDE 5 s]")
    opened.create_query("past", "SELECT count(w) AS n FROM s [RANGE 5 s SLIDE 5 s] WITH (from = 'beginning')")
    opened.create_query("each", "SELECT v, w FROM s WHERE v > 0 WITH (from = 'beginning')")
    arrive(tmp_path / "in", "1", range(20, 41), wide=True)
    opened.process_available()
    assert said(opened, "n") == counted([10, 20, 30, 40])
    assert said(opened, "w") == [(end, 5, sum(s * 10 for s in range(end - 5, end))) for end in (25, 30, 35, 40)]
    assert said(opened, "past") == [(end, 5) for end in (25, 30, 35, 40)]
    assert [row["w"] for row in opened.results("each", "rows")] == [s * 10 for s in range(20, 41)]
    assert opened.results("n", version="all")["version"].unique().to_pylist() == [1]


def test_nobody_reads_a_new_column_where_it_was_not(opened: ps.Engine, tmp_path: Path) -> None:
    opened.execute("ALTER STREAM s ADD COLUMN w BIGINT")
    arrive(tmp_path / "in", "1", range(20, 26), wide=True)
    opened.process_available()
    with pytest.raises(PenstockError, match="cannot answer this"):
        opened.ask("SELECT sum(w) AS x FROM s [RANGE 10 s]")
    assert opened.ask("SELECT sum(w) AS x FROM s [RANGE 5 s]")["x"].to_pylist() == [sum(range(200, 250, 10))]
    opened.create_query("late", "SELECT count(w) AS n FROM s [RANGE 5 s SLIDE 5 s]")  # kept rows cover it from 20 on
    assert said(opened, "late") == [(25, 5)]
    assert opened.backfill(["late"]) == {"late": 0}


def test_a_change_holds_after_a_restart(opened: ps.Engine, spark: SparkSession, tmp_path: Path) -> None:
    opened.execute("ALTER STREAM s ADD COLUMN w BIGINT; ALTER STREAM s SET OPTIONS (max_ahead = '100 days')")
    opened.close()
    arrive(tmp_path / "in", "1", range(20, 31), wide=True)
    with ps.Engine(tmp_path / "state", spark=spark) as engine:
        engine.create_query("w", "SELECT sum(w) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        engine.process_available()
        assert said(engine, "n") == counted([10, 20, 30])
        assert said(engine, "w") == [(30, sum(range(200, 300, 10)))]
        assert [row[0].as_py() for row in engine.execute("DESCRIBE STREAM s")[0].columns[:1]] == ["ts"]


def test_lateness_grows_and_shrinks(opened: ps.Engine, tmp_path: Path) -> None:
    opened.execute("ALTER STREAM s WATERMARK FOR ts AS ts - INTERVAL 10 SECONDS")
    arrive(tmp_path / "in", "1", range(20, 31))
    opened.process_available()
    assert said(opened, "n") == counted([10, 20])  # the watermark is 30 s less 10 s
    arrive(tmp_path / "in", "2", [22])
    opened.process_available()
    opened.execute(create(tmp_path / "in", lateness="0 s", head="CREATE OR REPLACE STREAM"))
    arrive(tmp_path / "in", "3", [31])
    opened.process_available()
    assert said(opened, "n") == [*counted([10, 20]), (30, 11, sum(range(20, 30)) + 22)]


def test_a_stream_goes_on_from_another_path(opened: ps.Engine, tmp_path: Path) -> None:
    arrive(tmp_path / "elsewhere", "1", range(20, 31))
    opened.execute(f"ALTER STREAM s SET OPTIONS (path = '{tmp_path / 'elsewhere'}')")
    opened.process_available()
    assert said(opened, "n") == counted([10, 20, 30])
    opened.create_query(
        "all", "SELECT count(*) AS c, min(v) AS m FROM s [RANGE 10 s SLIDE 10 s] WITH (from = 'beginning')"
    )
    assert said(opened, "all") == [(10, 10, 0), (20, 10, 10), (30, 10, 20)]


def test_a_column_that_nobody_reads_may_go_and_come_back_with_its_type(opened: ps.Engine, tmp_path: Path) -> None:
    opened.execute("ALTER STREAM s DROP COLUMN k")
    with pytest.raises(CatalogError, match=r'column "k" of stream "s" is string, and cannot become bigint'):
        opened.execute("ALTER STREAM s ADD COLUMN k BIGINT")
    opened.execute("ALTER STREAM s ADD COLUMN k STRING")
    arrive(tmp_path / "in", "1", range(20, 31))
    opened.create_query("k", "SELECT count(k) AS k FROM s [RANGE 10 s SLIDE 10 s] WITH (from = 'beginning')")
    opened.process_available()
    assert said(opened, "k") == [(30, 10)]
    assert said(opened, "n") == counted([10, 20, 30])


def test_what_cannot_go_on_is_refused_with_who_is_in_the_way(opened: ps.Engine, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r'column "v" of stream "s" is bigint, and cannot go') as raised:
        opened.execute("ALTER STREAM s DROP COLUMN v")
    assert raised.value.detail == 'read by query "n"'
    changed = create(tmp_path / "in", OLD.replace("v BIGINT", "v STRING"), head="CREATE OR REPLACE STREAM")
    with pytest.raises(CatalogError, match=r"cannot become string"):
        opened.execute(changed)
    for refused, why in {
        "ALTER STREAM s DROP COLUMN ts": "the event time of the stream",
        "ALTER STREAM s SET OPTIONS (dedup = 'k')": "repeated rows were counted so far: that cannot change",
        "ALTER STREAM s ADD COLUMN V INT": 'has a column "V" already',
        "ALTER STREAM s DROP COLUMN nobody": 'has no column "nobody"',
        "ALTER STREAM s WATERMARK FOR k": "the event time of stream",
        "ALTER STREAM t ADD COLUMN x INT": 'there is no stream "t"',
        "CREATE OR REPLACE STREAM s (ts TIMESTAMP) USING json OPTIONS (path = '/') WATERMARK FOR ts": "format parquet",
    }.items():
        with pytest.raises(PenstockError) as error:
            opened.execute(refused)
        assert why in f"{error.value.what} {error.value.detail}", refused
    arrive(tmp_path / "in", "1", range(20, 31))
    opened.process_available()  # nothing was changed, and the stream goes on
    assert said(opened, "n") == counted([10, 20, 30])


def test_a_column_stays_until_the_last_window_of_the_definition_before(opened: ps.Engine, tmp_path: Path) -> None:
    arrive(tmp_path / "in", "1", range(20, 26))
    opened.process_available()
    opened.execute("ALTER QUERY n AS SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    with pytest.raises(CatalogError, match=r'column "v" of stream "s" is bigint, and cannot go while it is read'):
        opened.execute("ALTER STREAM s DROP COLUMN v")
    arrive(tmp_path / "in", "2", range(26, 41))
    opened.process_available()
    opened.execute("ALTER STREAM s DROP COLUMN v")
    found = opened.results("n", "rows", version="all")
    assert [(row["n"], row["x"]) for row in found[:3]] == [(10, sum(range(at, at + 10))) for at in (0, 10, 20)]


def test_without_a_state_folder_a_stream_with_rows_stays_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", "0", range(20))
    with ps.Engine(spark=spark) as engine:
        engine.execute(create(tmp_path / "in"))
        engine.execute("ALTER STREAM s ADD COLUMN w BIGINT")
        engine.create_query("n", "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        engine.process_available()
        with pytest.raises(Unsupported, match="no state folder"):
            engine.execute("ALTER STREAM s ADD COLUMN z BIGINT")
        assert said(engine, "n") == counted([10])


def test_what_a_stream_feeds_goes_on_too(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", "0", range(20))
    with ps.Engine(tmp_path / "state", spark=spark) as engine:
        engine.execute(create(tmp_path / "in"))
        engine.execute("CREATE STREAM big AS SELECT v FROM s WHERE v > 3")
        engine.execute("CREATE STREAM sums AS SELECT sum(v) AS x FROM s [RANGE 5 s SLIDE 5 s]")
        engine.create_query("b", "SELECT count(*) AS n FROM big [RANGE 10 s SLIDE 10 s]")
        engine.create_query("a", "SELECT sum(x) AS x FROM sums [RANGE 10 s SLIDE 10 s]")
        engine.create_query("r", "SELECT sum(v) AS x FROM s [ROWS 10 SLIDE 10]")
        engine.process_available()
        engine.execute("ALTER STREAM s ADD COLUMN w BIGINT; ALTER STREAM s WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS")
        engine.create_query("rw", "SELECT sum(w) AS x FROM s [ROWS 5 SLIDE 5]")
        arrive(tmp_path / "in", "1", range(20, 43), wide=True)
        engine.process_available()
        assert said(engine, "b") == [(10, 6), (20, 10), (30, 10), (40, 10)]
        assert said(engine, "a") == [(end, sum(range(end - 10, end))) for end in (10, 20, 30, 40)]
        assert [x for *_, x in said(engine, "r")] == [sum(range(at, at + 10)) for at in (0, 10, 20, 30)]
        assert [x for *_, x in said(engine, "rw")][:3] == [
            sum(s * 10 for s in range(at, at + 5)) for at in (20, 25, 30)
        ]


def test_a_running_stream_changes_while_rows_come(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", "0", range(20))
    with ps.Engine(tmp_path / "state", spark=spark) as engine:
        engine.execute(create(tmp_path / "in"))
        engine.create_query("n", "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        engine.start()
        engine.execute("ALTER STREAM s ADD COLUMN w BIGINT")
        assert engine.running
        engine.stop()
        arrive(tmp_path / "in", "1", range(20, 31), wide=True)
        engine.process_available()
        assert said(engine, "n") == counted([10, 20, 30])


# -- tables ------------------------------------------------------------------------------------------------------------


def test_a_table_changes_its_shape_path_and_options(opened: ps.Engine, tmp_path: Path) -> None:
    (tmp_path / "t1.csv").write_text("a,one\nb,two\n")
    (tmp_path / "t2.csv").write_text("k;name;weight\na;uno;1\nb;dos;2\n")
    opened.execute(f"CREATE TABLE t (k STRING, name STRING) USING csv OPTIONS (path = '{tmp_path / 't1.csv'}')")
    opened.create_query("t", "SELECT name, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] JOIN t USING (k) GROUP BY name")
    arrive(tmp_path / "in", "1", range(20, 31))
    opened.process_available()
    assert said(opened, "t") == [(end, name, 5) for end in (10, 20, 30) for name in ("one", "two")]  # rows are kept
    with pytest.raises(CatalogError, match=r'column "name" of table "t" is string, and cannot go while it is read'):
        opened.execute("ALTER TABLE t DROP COLUMN name")
    with pytest.raises(CatalogError, match=r'column "k" of table "t" .* cannot go'):
        opened.execute("ALTER TABLE t DROP COLUMN k")
    opened.execute(
        "CREATE OR REPLACE TABLE t (k STRING, name STRING, weight INT) USING csv "
        f"OPTIONS (path = '{tmp_path / 't2.csv'}', header = 'true', sep = ';')"
    )
    opened.create_query("w", "SELECT sum(weight) AS w FROM s [RANGE 10 s SLIDE 10 s] JOIN t USING (k)")
    arrive(tmp_path / "in", "2", range(31, 51))
    opened.process_available()
    assert said(opened, "t")[6:] == [(40, "dos", 5), (40, "one", 1), (40, "uno", 4), (50, "dos", 5), (50, "uno", 5)]
    assert said(opened, "w")[-1] == (50, 15)
    opened.execute("ALTER TABLE t ADD COLUMN note STRING; ALTER TABLE t DROP COLUMN note")


def test_frames_and_tables_of_a_program_change_too(spark: SparkSession, tmp_path: Path) -> None:
    def frame(columns: str) -> Any:
        return spark.readStream.schema(columns).parquet(str(tmp_path / "in"))

    arrive(tmp_path / "in", "0", range(20))
    with ps.Engine(tmp_path / "state", spark=spark) as engine:
        engine.create_stream("s", frame(OLD), time="ts")
        engine.create_table("t", pa.table({"k": ["a"], "name": ["one"]}))
        engine.create_query("n", "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
        engine.process_available()
    arrive(tmp_path / "in", "1", range(20, 31), wide=True)
    with ps.Engine(tmp_path / "state", spark=spark) as engine:
        with pytest.raises(CatalogError, match="exists already"):
            engine.create_stream("s", frame(NEW), time="ts")
        engine.create_stream("s", frame(NEW), time="ts", replace=True)
        engine.create_table("t", pa.table({"k": ["a"], "name": ["one"], "weight": [3]}), replace=True)
        engine.create_query("w", "SELECT sum(w * weight) AS x FROM s [RANGE 10 s SLIDE 10 s] JOIN t USING (k)")
        engine.process_available()
        assert said(engine, "n") == counted([10, 20, 30])
        assert said(engine, "w") == [(30, sum(s * 30 for s in range(20, 30, 2)))]


# -- deaths ------------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The end of a process, as far as the engine can tell."""


@pytest.mark.parametrize("moment", [m for m in MOMENTS if m != "torn"])
def test_a_death_around_the_change_leaves_it_done_or_undone(spark: SparkSession, tmp_path: Path, moment: str) -> None:
    def die(point: str) -> None:
        if point == f"catalog.{moment}":
            faults.hook = None
            raise Killed

    arrive(tmp_path / "in", "0", range(20))
    engine = ps.Engine(tmp_path / "state", spark=spark)
    engine.execute(create(tmp_path / "in"))
    engine.create_query("n", "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]")
    engine.process_available()
    faults.hook = die
    try:
        with pytest.raises(Killed):
            engine.execute("ALTER STREAM s ADD COLUMN w BIGINT")
    finally:
        faults.hook = None
    engine.release()
    arrive(tmp_path / "in", "1", range(20, 31), wide=True)
    with ps.Engine(tmp_path / "state", spark=spark) as engine:
        done = len(engine.catalog.known_stream("s").columns) == 4
        assert done == (moment == "after")
        engine.execute(create(tmp_path / "in", NEW, head="CREATE OR REPLACE STREAM"))
        engine.create_query("w", "SELECT sum(w) AS x FROM s [RANGE 10 s SLIDE 10 s] WITH (from = 'beginning')")
        engine.process_available()
        assert said(engine, "n") == counted([10, 20, 30])
        assert said(engine, "w") == [(30, sum(range(200, 300, 10)))]
