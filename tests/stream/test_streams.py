"""Real Spark streams: files of every format, several streams at once, a running engine, reuse of generated code."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine import Engine
from penstock.errors import CatalogError, InvalidWindow, PenstockError, SourceError, UnknownColumn, WrongType
from penstock.sinks.parquet import ParquetSink
from penstock.spark.market import Market, write_trades
from penstock.testing import TestBed
from tests.shell import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARKET = Market(seed=5, rows=20_000, symbols=40, rate=20.0, late_fraction=0.05, late_by_us=2_000_000)
COLUMNS = "ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT, side STRING, exchange STRING"


def stream_sql(name: str, folder: Path, format_: str = "parquet", more: str = "") -> str:
    return (
        f"CREATE STREAM {name} ({COLUMNS}) USING {format_} OPTIONS (path = '{folder}', maxFilesPerTrigger = '1'{more}) "
        "WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS"
    )


def by_duckdb(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        return [tuple(row.values()) for row in db.sql(sql).to_arrow_table().to_pylist()]


@pytest.mark.parametrize("format_", ["parquet", "csv", "json"])
def test_files_of_every_format_give_the_same_answers(spark: SparkSession, tmp_path: Path, format_: Any) -> None:
    write_trades(spark, MARKET, tmp_path / "in", files=3, format=format_)
    header = {"csv": ", header = 'true'"}.get(format_, "")
    with Engine(spark=spark) as engine:
        engine.execute(stream_sql("trades", tmp_path / "in", format_, header))
        engine.create_query(
            "q", "SELECT side, count(*) AS n, sum(volume) AS v FROM trades [RANGE 60 s SLIDE 60 s] GROUP BY side"
        )
        engine.process_available(flush=True)
        found = engine.results("q")
        assert engine.stream("trades").pipeline.metrics.batches == 3
        assert sum(found["n"].to_pylist()) == 20_000
    write_trades(spark, MARKET, tmp_path / "same", files=1)
    same = tmp_path / "same"
    expected = by_duckdb(
        f"SELECT time_bucket(INTERVAL '60 seconds', ts) AS w, side, count(*), sum(volume) "
        f"FROM '{same}/*.parquet' GROUP BY ALL ORDER BY ALL"
    )
    assert [(r["window_start"], r["side"], r["n"], r["v"]) for r in found.to_pylist()] == [
        (w, side, n, v) for w, side, n, v in expected
    ]


def test_two_streams_run_beside_each_other(spark: SparkSession, tmp_path: Path) -> None:
    write_trades(spark, MARKET, tmp_path / "a", files=2)
    write_trades(spark, Market(seed=6, rows=5_000, symbols=5, rate=50.0), tmp_path / "b", files=3)
    with Engine(tmp_path / "state", spark=spark) as engine:
        engine.execute(f"{stream_sql('a', tmp_path / 'a')}; {stream_sql('b', tmp_path / 'b')}")
        engine.create_query("qa", "SELECT count(*) AS n FROM a [RANGE 1 h SLIDE 1 h]")
        engine.create_query("qb", "SELECT count(*) AS n FROM b [RANGE 1 h SLIDE 1 h]")
        engine.process_available(flush=True)
        assert sum(engine.results("qa")["n"].to_pylist()) == 20_000
        assert sum(engine.results("qb")["n"].to_pylist()) == 5_000


def test_a_running_engine_takes_queries_and_new_columns(spark: SparkSession, tmp_path: Path) -> None:
    files = write_trades(spark, MARKET, tmp_path / "all", files=4)
    (tmp_path / "in").mkdir()
    with Engine(tmp_path / "state", spark=spark, sinks=[ParquetSink(tmp_path / "out")]) as engine:
        engine.execute(stream_sql("trades", tmp_path / "in"))
        engine.create_query("n", "SELECT count(*) AS n FROM trades [RANGE 30 s SLIDE 30 s]")
        engine.start()
        move_in(files[0], tmp_path / "in")
        until(lambda: engine.stream("trades").pipeline.progress.clock.counts.ingested == 5_000, engine)
        engine.create_query("by", "SELECT symbol, max(price) AS p FROM trades [RANGE 30 s SLIDE 30 s] GROUP BY symbol")
        counts = engine.stream("trades").pipeline.progress
        for number, file in enumerate(files[1:], 2):
            move_in(file, tmp_path / "in")
            until(lambda wanted=number * 5_000: counts.clock.counts.ingested == wanted, engine)
        engine.stop()
        engine.stream("trades").flush()
        counted = engine.results("n")
        assert sum(counted["n"].to_pylist()) == 20_000
        found, first = engine.results("by"), engine.results("by")["window_start"][0].as_py()
        whole = tmp_path / "all"
        expected = by_duckdb(
            f"SELECT time_bucket(INTERVAL '30 seconds', ts) AS w, symbol, max(price) "
            f"FROM '{whole}/*.parquet' GROUP BY ALL ORDER BY ALL"
        )
        assert [(r["window_start"], r["symbol"], r["p"]) for r in found.to_pylist()] == [
            e for e in expected if e[0] >= first
        ]
    rows = sum(pq.read_metadata(p).num_rows for p in (tmp_path / "out").rglob("*.parquet"))
    assert rows == found.num_rows + counted.num_rows


def move_in(file: Path, folder: Path) -> None:
    (folder / f".{file.name}").write_bytes(file.read_bytes())
    (folder / f".{file.name}").rename(folder / file.name)


def until(condition: Any, engine: Engine) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert engine.running, "the stream stopped"
        assert time.monotonic() < end, "the stream did not get there"
        time.sleep(0.05)


def test_batches_reuse_generated_code(spark: SparkSession) -> None:
    metrics = spark.sparkContext._jvm.org.apache.spark.metrics.source.CodegenMetrics  # type: ignore[union-attr]
    rng = random.Random(1)
    with TestBed(spark, compiled=True, epoch="1970-01-01") as bed:
        bed.stream("s", "ts TIMESTAMP, x DOUBLE", lateness="7 s")
        # odd windows, so that one tree divides and one searches among edges that change with every batch
        for i in range(12):
            window = f"[RANGE {rng.randint(1, 10**8)} us SLIDE {rng.randint(10**7, 10**8)} us]"
            bed.query(f"q{i}", f"SELECT sum(x) AS v FROM s {window}")
        counts = []
        for batch in range(6):
            bed.feed("s", [(batch * 100 + i + rng.randint(0, 999_999) / 1e6, 1.0) for i in range(100)])
            counts.append(metrics.METRIC_COMPILATION_TIME().getCount())
        assert "search" in str(bed.engine.explain())
        assert counts[2:] == [counts[2]] * 4


def test_mistakes_are_errors_that_say_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    with Engine(spark=spark) as engine:
        with pytest.raises(SourceError, match="does not exist"):
            engine.execute(stream_sql("gone", tmp_path / "gone"))
        with pytest.raises(PenstockError, match="unknown format"):
            engine.execute("CREATE TABLE t (a INT) USING xml OPTIONS (path = '/')")
        (tmp_path / "in").mkdir()
        with pytest.raises(WrongType, match="not timestamp"):
            engine.execute(
                f"CREATE STREAM s (ts BIGINT) USING parquet OPTIONS (path = '{tmp_path / 'in'}') WATERMARK FOR ts"
            )
        engine.execute(stream_sql("ok", tmp_path / "in"))
        with pytest.raises(WrongType, match="WHERE needs a boolean"):
            engine.create_query("q", "SELECT count(*) FROM ok [RANGE 1 s SLIDE 1 s] WHERE volume")
        with pytest.raises(WrongType, match="sum"):
            engine.create_query("q", "SELECT sum(symbol) FROM ok [RANGE 1 s SLIDE 1 s]")
        with pytest.raises(PenstockError, match="DATATYPE_MISMATCH"):
            engine.create_query("q", "SELECT count(*) FROM ok [RANGE 1 s SLIDE 1 s] WHERE upper(map(1, 2)) = 'a'")
        assert engine.catalog.query_names() == []


def test_a_frame_that_cannot_be_a_stream_is_refused_and_not_entered(spark: SparkSession, tmp_path: Path) -> None:
    columns = "ts TIMESTAMP, at STRING, n INT"
    stream = spark.readStream.schema(columns).parquet(str(tmp_path))
    with Engine(spark=spark) as engine:
        with pytest.raises(SourceError, match="is not a streaming one") as raised:
            engine.create_stream("s", spark.createDataFrame([], columns), time="ts")
        assert 'create_table("s", …)' in (raised.value.hint or "")
        with pytest.raises(SourceError, match="not Table"):
            engine.create_stream("s", pa.table({"ts": [1]}), time="ts")
        with pytest.raises(UnknownColumn, match='no column "tts" to take the time from') as raised_too:
            engine.create_stream("s", stream, time="tts")
        assert raised_too.value.hint == 'Did you mean "ts"?'
        with pytest.raises(WrongType, match='time column "at" of stream "s" is string, not a timestamp'):
            engine.create_stream("s", stream, time="at")
        with pytest.raises(CatalogError, match='two columns "TS"'):
            engine.create_stream("s", stream.selectExpr("ts", "n", "at AS TS"), time="ts")
        with pytest.raises(CatalogError, match='must not begin with "__"'):
            engine.create_stream("s", stream.withColumnRenamed("n", "__n"), time="ts")
        with pytest.raises(InvalidWindow, match='"soon" is not a duration'):
            engine.create_stream("s", stream, time="ts", lateness="soon")
        assert engine.catalog.stream_names() == []
        engine.create_stream("s", stream.orderBy("n"), time="ts")  # Spark itself says no to it
        with pytest.raises(SourceError, match='stream "s" cannot start'):
            engine.process_available()


def test_a_corrupt_source_file_stops_the_stream_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    (good,) = write_trades(spark, MARKET, tmp_path / "in", files=1)
    with Engine(tmp_path / "state", spark=spark) as engine:
        engine.execute(stream_sql("trades", tmp_path / "in"))
        engine.create_query("n", "SELECT count(*) AS n FROM trades [RANGE 1 h SLIDE 1 h]")
        engine.process_available()
        bad = tmp_path / "in" / "zz.parquet"
        bad.write_bytes(b"PAR1 not a file")
        with pytest.raises(SourceError, match="stopped"):
            engine.process_available()
        bad.write_bytes(good.read_bytes())
        engine.process_available(flush=True)
        assert sum(engine.results("n")["n"].to_pylist()) == 40_000
        assert engine.stream("trades").pipeline.metrics.batches == 2
