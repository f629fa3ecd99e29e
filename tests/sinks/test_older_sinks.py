"""State and sinks of the version before, which had one layout and streams that could not change, go on and change.

``tests/store/before_evolution.zip`` was written at commit 2556969 by ``python test_older_sinks.py FOLDER``; whoever
changes what is written keeps it readable.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
BEFORE = Path(__file__).parents[1] / "store" / "before_evolution.zip"
SECOND = 1_000_000
START = 1_767_225_600 * SECOND  # 2026-01-01
STREAM = (
    "{head} STREAM s (ts TIMESTAMP, k STRING, v BIGINT{more}) USING parquet OPTIONS (path = '{path}') "
    "WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS"
)
QUERIES = {
    "total": "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 20 s SLIDE 10 s]",
    "Keyed": "SELECT k, sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k",
    "words": "SELECT k, max(k) AS x FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k",
    "revised": "SELECT k, sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k "
    "WITH (late = 'revise', revise_for = '1 h')",
    "each": "SELECT k, v FROM s WHERE v % 7 = 0",
    "rows": "SELECT sum(v) AS x FROM s [ROWS 15 SLIDE 5]",
}
PARTS = (range(0, 25), range(20, 47), range(43, 75), range(70, 101))  # seconds of each file; the first two are before
SINK = "tables"


def arrive(folder: Path, number: int) -> None:
    """Let a file appear; of the first ones no row has a weight."""
    seconds = PARTS[number]
    columns = {
        "ts": pa.array([START + s * SECOND + number for s in seconds], pa.timestamp("us", "UTC")),
        "k": ["abc"[s % 3] for s in seconds],
        "v": pa.array([s * 5 % 17 for s in seconds], pa.int64()),
    }
    more = {"w": pa.array([s % 11 for s in seconds], pa.int64())} if number > 1 else {}
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns | more), folder / f"{number}.parquet")
    os.utime(folder / f"{number}.parquet", (START // SECOND + number,) * 2)


def begun(folder: Path, spark: Any = None, sinks: Any = ()) -> ps.Engine:
    """Create everything, and process the first two files, each in a run of its own."""
    engine = ps.Engine(folder / "state", spark=spark, sinks=sinks)
    arrive(folder / "rows", 0)
    engine.execute(STREAM.format(head="CREATE", more="", path=folder / "rows"))
    for name, text in QUERIES.items():
        engine.create_query(name, text)
    engine.process_available()
    arrive(folder / "rows", 1)
    engine.process_available()
    return engine


def older_sinks(folder: Path) -> list[Any]:
    """Make the sinks as they were made then: they have no layout."""
    return [ps.ParquetSink(folder / SINK), ps.JsonLinesSink(folder / "lines")]


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Unpack the folder; its rows were elsewhere."""
    shutil.unpack_archive(BEFORE, tmp_path / "older")
    return tmp_path / "older"


@pytest.fixture
def fresh(spark: SparkSession, tmp_path: Path) -> Iterator[ps.Engine]:
    """Open an engine of now that has processed the same two files."""
    (tmp_path / "fresh").mkdir()
    with begun(tmp_path / "fresh", spark) as engine:
        yield engine


def go_on(engine: ps.Engine, folder: Path) -> None:
    """Take what came later, in another folder and with another column, and change a query."""
    arrive(folder / "rows-later", 2)
    engine.execute(STREAM.format(head="CREATE OR REPLACE", more=", w BIGINT", path=folder / "rows-later"))
    engine.execute("ALTER QUERY words AS SELECT k, sum(w) AS x FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k")
    engine.create_query("weights", "SELECT sum(w) AS w FROM s [RANGE 10 s SLIDE 10 s]")
    engine.process_available()
    arrive(folder / "rows-later", 3)
    engine.process_available()


def answers(engine: ps.Engine) -> dict[str, list[dict[str, Any]]]:
    """Read what all definitions answered, revisions too."""
    names = [*QUERIES, "weights"]
    found = {name: engine.results(name, "rows", revisions=name == "revised") for name in names}
    return found | {"words 1": engine.results("words", "rows", version=1)}


def in_files(files: list[str]) -> list[tuple[Any, ...]]:
    """Read Parquet files of windows as people do."""
    table = f"read_parquet({files}, union_by_name = true)"
    columns = "query_name, query_version, window_start, window_end, x"
    with duckdb.connect() as db:
        found = db.sql(f"SELECT {columns} FROM {table} WHERE query_name IN ('total', 'Keyed') ORDER BY ALL")
        rows: list[tuple[Any, ...]] = found.fetchall()
        return rows


def test_state_and_sinks_of_the_version_before_go_on(spark: SparkSession, older: Path, fresh: ps.Engine) -> None:
    before = {path.name for path in (older / SINK).glob("*.parquet")}
    assert before
    with ps.Engine(older / "state", spark=spark, sinks=older_sinks(older)) as engine:
        assert sorted(engine.catalog.query_names()) == sorted(QUERIES)
        go_on(engine, older)
        found = answers(engine)
    go_on(fresh, older.parent / "fresh")
    assert found == answers(fresh)
    assert all(found[name] for name in found), found
    # the layout is as it was: all in the folder itself, and nothing twice
    assert [path for path in (older / SINK).iterdir() if path.is_dir() and path.name[0] not in "._"] == []
    assert before < {path.name for path in (older / SINK).glob("*.parquet")}
    held = [in_files([str(path)]) for path in (older / SINK).glob("*.parquet") if "x" in pq.read_schema(path).names]
    windows = [(name, end) for rows in held for name, _, _, end, _ in rows if name == "total"]
    assert sorted(windows) == [("total", row["window_end"].replace(tzinfo=end.tzinfo)) for (_, end), row in zip(
        sorted(windows), found["total"], strict=True
    )]  # fmt: skip


def test_sinks_of_now_beside_older_ones_get_all_answers(spark: SparkSession, older: Path) -> None:
    sinks = [*older_sinks(older), ps.ParquetSink(older / "by-query")]
    with ps.Engine(older / "state", spark=spark, sinks=sinks) as engine:
        go_on(engine, older)
        wanted = [len(engine.results(name, "rows")) for name in ("total", "Keyed")]
    keyed = ps.ParquetSink(older / "by-query").folder_of("Keyed")
    for folder, number in zip((older / "by-query" / "total", keyed), wanted, strict=True):
        assert len(in_files([str(path) for path in folder.rglob("*.parquet")])) == number


def test_an_older_sink_takes_the_layout_that_it_is_told_from_then_on(spark: SparkSession, older: Path) -> None:
    before = {path: path.read_bytes() for path in (older / SINK).glob("*.parquet")}
    with ps.Engine(older / "state", spark=spark, sinks=[ps.ParquetSink(older / SINK, layout="query")]) as engine:
        go_on(engine, older)
        wanted = len(engine.results("total", "rows"))
    assert {path: path.read_bytes() for path in (older / SINK).glob("*.parquet")} == before
    old = [str(path) for path in before if {"n", "x"} <= set(pq.read_schema(path).names)]
    new = [str(path) for path in (older / SINK / "total").rglob("*.parquet")]
    assert len(in_files([*old, *new])) == wanted == len(set(in_files([*old, *new])))


if __name__ == "__main__":
    place = Path(sys.argv[1])
    begun(place, sinks=older_sinks(place)).close()
    shutil.rmtree(place / "rows")
